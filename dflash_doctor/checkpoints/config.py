"""A checkpoint's config for callers that cannot go on without it: a problem is an error here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dflash_doctor.checkpoints.json_file import JsonFile, read_json_object
from dflash_doctor.checkpoints.normal_form import draft_config
from dflash_doctor.checkpoints.semantics.read import read_as
from dflash_doctor.checkpoints.semantics.table import semantics_of
from dflash_doctor.errors import UsageError


def read_config(folder: str | Path) -> dict[str, Any] | None:
    """The config of a checkpoint folder; `None` for a hub id (no such folder here).

    Raises:
        UsageError: the file is missing, too large, or is not a JSON object.
    """
    return _read(folder).value if Path(folder).is_dir() else None


def drafted_tokens(folder: str | Path, *, reader: str) -> int | None:
    """Tokens that an engine drafts from a full block of this drafter; `None` where its config does not say.

    Args:
        folder: the drafter's folder; a hub id has no answer.
        reader: an engine of the semantics table.

    Raises:
        UsageError: as `read_config`.
    """
    if not Path(folder).is_dir():
        return None
    config, _ = draft_config(_read(folder))
    return None if config is None else read_as(semantics_of(reader), config, None).num_draft_tokens


def _read(folder: str | Path) -> JsonFile:
    file = read_json_object(Path(folder) / "config.json")
    if file.value is None:
        raise UsageError(
            "the checkpoint's config cannot be read",
            seen=f"{file.path}: {file.problems[0].seen}",
            remedy="name a folder with a config.json",
        )
    return file
