"""Checks that a model argument names a checkpoint before anything heavy is imported."""

from __future__ import annotations

from pathlib import Path

from dflash_doctor.checkpoints.config import read_config
from dflash_doctor.checkpoints.hub_cache import require_hub_id
from dflash_doctor.errors import UsageError


def require_model_folder(model: str, *, role: str) -> None:
    """Raise unless `model` is a checkpoint folder, or may be a hub id (`owner/name`, no such path here).

    Args:
        model: what the user gave.
        role: target or draft, for the message.

    Raises:
        UsageError: the path does not exist and is no hub id, is a file, is empty, cannot be read, or holds
            no config.json.
    """
    try:
        exists, entries = _look(model)
    except OSError as error:
        raise UsageError(
            f"the {role} model cannot be read",
            seen=f"{model}: {error.strerror}",
            remedy="name a checkpoint folder that this user may read",
        ) from error
    if not exists:
        require_hub_id(model, role)
        return
    if entries is None:
        raise UsageError(
            f"the {role} model is not a folder",
            seen=model,
            remedy="name the folder that holds config.json",
        )
    if "config.json" not in entries:
        seen = f"{model} holds " + (", ".join(entries[:5]) if entries else "nothing")
        raise UsageError(
            f"the {role} model is not a checkpoint", seen=seen, remedy="name a folder with a config.json"
        )
    read_config(model)


def _look(model: str) -> tuple[bool, list[str] | None]:
    """Whether something is there, and what the folder holds; `None` where it is no folder."""
    path = Path(model)
    if not model or not path.exists():  # an empty name would mean the working folder
        return False, None
    return True, sorted(entry.name for entry in path.iterdir()) if path.is_dir() else None
