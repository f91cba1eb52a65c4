"""Checks that a model argument names a checkpoint before anything heavy is imported."""

from __future__ import annotations

import re
from pathlib import Path

from dflash_doctor.checkpoints.config import read_config
from dflash_doctor.errors import UsageError

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")


def require_model_folder(model: str, *, role: str) -> None:
    """Raise unless `model` is a checkpoint folder, or may be a hub id (`owner/name`, no such path here).

    Args:
        model: what the user gave.
        role: target or draft, for the message.

    Raises:
        UsageError: the path does not exist, is a file, is empty, or holds no config.json.
    """
    path = Path(model)
    if not path.exists():
        if _HUB_ID.fullmatch(model):
            return
        raise UsageError(
            f"the {role} model does not exist",
            seen=model,
            remedy="name a checkpoint folder or a hub id (owner/name)",
        )
    if not path.is_dir():
        raise UsageError(
            f"the {role} model is not a folder",
            seen=model,
            remedy="name the folder that holds config.json",
        )
    entries = sorted(entry.name for entry in path.iterdir())
    if "config.json" not in entries:
        seen = f"{model} holds " + (", ".join(entries[:5]) if entries else "nothing")
        raise UsageError(
            f"the {role} model is not a checkpoint", seen=seen, remedy="name a folder with a config.json"
        )
    read_config(path)
