"""Finds a hub id among the snapshots that lie on this machine. Nothing is fetched.

Layout: `models--owner--name/{refs,snapshots}` under `HF_HUB_CACHE`, else `HF_HOME/hub`, else
`~/.cache/huggingface/hub` (huggingface_hub's documentation, "Understand caching").
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from dflash_doctor.checkpoints.files import UnfitFileError, can_be_opened, names_in, read_text
from dflash_doctor.errors import UsageError

HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_MAX_REFERENCE_BYTES = 1024


def require_hub_id(name: str, role: str) -> None:
    """Raise unless a name that is no path here can be a hub id.

    Where its first part is a folder here (`pair/traget`), it is taken for a mistyped path and not for an
    owner on the hub: asking the hub for it would only hide the mistake.

    Raises:
        UsageError: it is no `owner/name`, or a mistyped path.
    """
    if not HUB_ID.fullmatch(name):
        raise UsageError(
            f"the {role} model does not exist",
            seen=repr(name),
            remedy="name a checkpoint folder or a hub id (owner/name)",
        )
    parent = Path(name).parent
    if not parent.is_dir():
        return
    try:
        near = difflib.get_close_matches(Path(name).name, names_in(parent), n=1)
    except UnfitFileError:
        near = []
    raise UsageError(
        f"the {role} model does not exist",
        seen=f"{name!r}, and {parent} is a folder here",
        remedy=(f"did you mean {parent / near[0]}? " if near else "name a folder that is there. ")
        + "(For a hub id of that name, run from another folder.)",
    )


def cached_snapshot(
    hub_id: str, revision: str | None, environ: Mapping[str, str] | None = None
) -> Path | None:
    """The snapshot folder of a hub id at a revision (`main` without one); `None` where none lies here."""
    if not HUB_ID.fullmatch(hub_id):
        return None
    home = _cache(os.environ if environ is None else environ) / ("models--" + hub_id.replace("/", "--"))
    commit = revision if revision and _COMMIT.fullmatch(revision) else _commit_of(home, revision or "main")
    if commit is None:
        return None
    snapshot = home / "snapshots" / commit
    return snapshot if can_be_opened(snapshot) else None


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a commit and not a name that can move."""
    return revision is not None and _COMMIT.fullmatch(revision) is not None


def _cache(environ: Mapping[str, str]) -> Path:
    if environ.get("HF_HUB_CACHE"):
        return Path(environ["HF_HUB_CACHE"]).expanduser()
    if environ.get("HF_HOME"):
        return Path(environ["HF_HOME"]).expanduser() / "hub"
    cache = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "huggingface" / "hub"


def _commit_of(home: Path, name: str) -> str | None:
    if ".." in Path(name).parts or Path(name).is_absolute():
        return None
    try:
        commit = read_text(home / "refs" / name, max_bytes=_MAX_REFERENCE_BYTES).strip()
    except UnfitFileError:
        return None
    return commit if _COMMIT.fullmatch(commit) else None
