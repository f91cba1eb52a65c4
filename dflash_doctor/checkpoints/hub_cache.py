"""Finds a hub id among the snapshots that lie on this machine. Nothing is fetched.

Layout: `models--owner--name/{refs,snapshots}` under `HF_HUB_CACHE`, else `HF_HOME/hub`, else
`~/.cache/huggingface/hub` (huggingface_hub's documentation, "Understand caching").
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from dflash_doctor.checkpoints.files import UnfitFileError, can_be_opened, read_text

HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_MAX_REFERENCE_BYTES = 1024


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
