"""GPUs and their driver: from the driver's files, and on request from its own tool."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

from dflash_doctor.environment.time_limited import run_limited

_PROC = Path("/proc/driver/nvidia")
_AMD_MODULE = Path("/sys/module/amdgpu/version")
_TIME_LIMIT_S = 10.0
_QUERY = "name,driver_version,compute_cap,memory.total"


def gpu_names(proc: Path = _PROC) -> list[str]:
    """Names of NVIDIA GPUs as the driver's files give them; none where there is no driver."""
    names = []
    for file in sorted((proc / "gpus").glob("*/information")):
        for line in _text(file).splitlines():
            if line.startswith("Model:"):
                names.append(line.partition(":")[2].strip())
    return names


def driver_version(proc: Path = _PROC, amd: Path = _AMD_MODULE) -> str | None:
    """Of the NVIDIA driver, else of the AMD one."""
    match = re.search(r"(?:Kernel Module|NVRM version:.*?)\s+(\d{3}\.\d+(?:\.\d+)?)", _text(proc / "version"))
    if match is not None:
        return match[1]
    return _text(amd).strip() or None


def ask_driver(time_limit_s: float = _TIME_LIMIT_S) -> list[dict[str, Any]]:
    """Name, driver, compute capability and memory of each GPU, asked from nvidia-smi or rocm-smi.

    Takes up to a second per GPU where the driver sleeps; empty where there is no such tool or it fails.
    """
    if (tool := shutil.which("nvidia-smi")) is not None:
        done = run_limited(
            [tool, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"], time_limit_s=time_limit_s
        )
        return parse_nvidia(done.output) if done.code == 0 else []
    if (tool := shutil.which("rocm-smi")) is not None:
        done = run_limited(
            [tool, "--showproductname", "--showdriverversion", "--json"], time_limit_s=time_limit_s
        )
        return parse_amd(done.output) if done.code == 0 else []
    return []


def parse_nvidia(text: str) -> list[dict[str, Any]]:
    """Rows of `nvidia-smi --query-gpu`; a field that it does not know is left out."""
    found = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if len(row) != len(_QUERY.split(",")):
            continue
        name, driver, capability, memory = (item.strip() for item in row)
        gpu: dict[str, Any] = {"name": name}
        if _known(driver):
            gpu["driver"] = driver
        if re.fullmatch(r"\d+\.\d+", capability):
            gpu["compute_capability"] = capability
        if memory.isdigit():
            gpu["memory_gib"] = round(int(memory) / 1024, 1)
        found.append(gpu)
    return found


def parse_amd(text: str) -> list[dict[str, Any]]:
    """What `rocm-smi --json` says of each card."""
    try:
        table = json.loads(text[text.index("{") :])
    except ValueError:
        return []
    system = table.get("system")
    driver = system.get("Driver version") if isinstance(system, dict) else None
    found = []
    for card, facts in sorted(table.items()):
        if not card.startswith("card") or not isinstance(facts, dict):
            continue
        gpu = {"name": str(facts.get("Card Series") or facts.get("Card series") or card)}
        if driver:
            gpu["driver"] = str(driver)
        found.append(gpu)
    return found


def _known(value: str) -> bool:
    return bool(value) and not value.startswith("[")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
