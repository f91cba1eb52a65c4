"""Reads a checkpoint's config.json. Standard library only; hub ids are not fetched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dflash_doctor.errors import UsageError

_MAX_CONFIG_BYTES = 16 * 1024 * 1024
"""Real ones are a few kilobytes; a larger file is something else."""


def read_config(folder: str | Path) -> dict[str, Any] | None:
    """The config of a checkpoint folder; `None` for a hub id (no such folder here).

    Raises:
        UsageError: the file is missing, too large, or is not a JSON object.
    """
    if not Path(folder).is_dir():
        return None
    path = Path(folder) / "config.json"
    try:
        if path.stat().st_size > _MAX_CONFIG_BYTES:
            raise ValueError(f"{path.stat().st_size} bytes")
        config = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError(f"a JSON {type(config).__name__}, not an object")
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            "the checkpoint's config cannot be read",
            seen=f"{path}: {getattr(error, 'strerror', None) or error}",
            remedy="name a folder with a config.json",
        ) from error
    return config


def draft_block_size(folder: str | Path) -> int | None:
    """`block_size` of a draft config (it counts the anchor slot), top level or in `dflash_config`.

    Older z-lab drafters have it at top level, newer ones nested. `None` when it stands in neither place.
    """
    config = read_config(folder) or {}
    nested = config.get("dflash_config")
    places = (config, nested if isinstance(nested, dict) else {})
    for place in places:
        value = place.get("block_size")
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
