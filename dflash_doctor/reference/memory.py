"""Finds out before loading whether the target fits, and in which precision."""

from __future__ import annotations

from pathlib import Path

import torch

from dflash_doctor.errors import EngineError

_SPARE = 1.2
"""Weights are not all: activations, logits and the drafter need room, too."""


def fitting_dtype(target: Path, device: torch.device) -> str:
    """`float32` on a CPU with room for it, else `auto`, the checkpoint's own.

    Float32 leaves rounding out of the comparison with an engine, which matters more there than speed.

    Args:
        target: folder of the target; of a hub id nothing is known, and it is tried as it is.
        device: where it goes.

    Raises:
        EngineError: not even the checkpoint's own precision fits.
    """
    needed = sum(file.stat().st_size for file in target.glob("*.safetensors")) if target.is_dir() else 0
    free = free_bytes(device)
    if needed * _SPARE > free:
        raise EngineError(
            "the target does not fit in this machine's memory for the reference",
            seen=f"{needed / 1e9:.1f} GB of weights, {free / 1e9:.1f} GB free on the {device.type}",
            remedy="run the experiments on a larger machine, or leave them out: --experiments off",
        )
    # Checkpoints are stored in two bytes a number or fewer; float32 takes twice as much or more.
    return "float32" if device.type == "cpu" and 2 * needed * _SPARE <= free else "auto"


def free_bytes(device: torch.device) -> int:
    """Memory that can be had on a device now."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 1 << 62  # nothing is known here: let it be tried
