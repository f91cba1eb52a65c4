"""What this machine and this Python environment are, without importing any engine."""

from __future__ import annotations

import ast
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dflash_doctor.environment.devices import ask_driver, driver_version, gpu_names
from dflash_doctor.environment.installed import Distribution, describe, find_all
from dflash_doctor.environment.registry import registries
from dflash_doctor.environment.secrets import is_secret_name, shown

_VARIABLE_PREFIXES = (
    "VLLM_", "SGLANG_", "SGL_", "CUDA_", "HIP_", "ROCR_", "NCCL_", "RCCL_", "TORCH_", "PYTORCH_",
    "TORCHINDUCTOR_", "TRITON_", "FLASHINFER_", "FLASH_ATTENTION_", "OMP_", "MKL_", "KMP_",
    "HF_HUB_OFFLINE", "HF_HOME", "TRANSFORMERS_OFFLINE", "LD_PRELOAD", "LD_LIBRARY_PATH",
)  # fmt: skip


def environment_snapshot(
    environ: Mapping[str, str] | None = None,
    *,
    ask_driver_tool: bool = False,
    with_registries: bool = False,
    probe: bool = False,
    path: Sequence[str] | None = None,
    cache: Path | None = None,
) -> dict[str, Any]:
    """Python, machine, package versions, and the environment variables that steer an engine.

    Versions come from package metadata, so nothing is imported. Variables outside the known prefixes and
    those with the name of a secret are left out; a value that looks like a secret is replaced by a note.

    Args:
        environ: the environment; the process's own by default.
        ask_driver_tool: also ask nvidia-smi or rocm-smi, which can take seconds.
        with_registries: also what methods and drafter classes the engines register.
        probe: for that, import the engines, each in a process of its own (seconds each).
        path: folders of installed packages; `sys.path` by default.
        cache: folder of kept answers; the user's by default.
    """
    found = find_all(path)
    gpus = ask_driver() if ask_driver_tool else []
    packages = [describe(name, item) for name, item in found.items()]
    return {
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "os": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "num_cpus": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "gpus": [item["name"] for item in gpus] or gpu_names(),
        "gpu_driver": next((item["driver"] for item in gpus if "driver" in item), None) or driver_version(),
        "compute_capabilities": [item["compute_capability"] for item in gpus if "compute_capability" in item],
        "torch_build": torch_build(found),
        "packages": {item.name: item.version for item in packages},
        "commits": {item.name: item.commit for item in packages if item.commit is not None},
        "development_builds": {
            item.name: item.development for item in packages if item.development is not None
        },
        **({"engines": _engines(found, probe=probe, cache=cache)} if with_registries else {}),
        "variables": engine_variables(os.environ if environ is None else environ),
        "in_virtual_environment": sys.prefix != sys.base_prefix,
    }


def _engines(found: Mapping[str, Distribution], *, probe: bool, cache: Path | None) -> dict[str, Any]:
    return {
        item.engine: {
            "methods": list(item.methods),
            "draft_architectures": list(item.draft_architectures),
            "asked": "by import" if item.probed else "by reading its files",
            **({"error": item.error} if item.error is not None else {}),
        }
        for item in registries(found, probe=probe, cache=cache)
    }


def engine_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that steer an engine; none that looks like a secret."""
    return {
        name: shown(value)
        for name, value in sorted(environ.items())
        if name.startswith(_VARIABLE_PREFIXES) and not is_secret_name(name)
    }


def torch_build(found: Mapping[str, Distribution]) -> dict[str, str | None]:
    """What torch was built for (`cuda`, `hip`, `xpu`, `git_version`), read in its `version.py`."""
    torch = found.get("torch")
    if torch is None:
        return {}
    try:
        tree = ast.parse((torch.root / "torch" / "version.py").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    build: dict[str, str | None] = {}
    for statement in tree.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(statement, ast.AnnAssign):
            target = statement.target
        if not isinstance(target, ast.Name) or target.id not in ("cuda", "hip", "xpu", "git_version"):
            continue
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            build[target.id] = value.value
        else:
            build[target.id] = None
    return build


def _cpu_model() -> str | None:
    """Model name on Linux; the platform's own word elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or None
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else None


def _memory_gib() -> float | None:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
    return round(total / 2**30, 1)
