"""Keeps what took seconds to find out, in the user's cache folder, until the packages change.

Only commands that ask on request write here. A damaged or unwritable cache counts as an empty one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

_MAX_BYTES = 4 * 1024 * 1024


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where answers are kept: `dflash-doctor` in the user's cache folder."""
    values = os.environ if environ is None else environ
    base = values.get("XDG_CACHE_HOME")
    home = Path(base) if base else Path(values.get("HOME") or tempfile.gettempdir()) / ".cache"
    return home / "dflash-doctor"


def key_of(*parts: str) -> str:
    """A file name that changes with any of the parts, with the interpreter and with its folder."""
    text = "\0".join((sys.version, sys.prefix, *parts))
    return hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()[:32]


def recall(kind: str, key: str, *, folder: Path | None = None) -> Any:
    """The answer kept under this key; `None` where there is none that can be read."""
    path = _path(kind, key, folder)
    try:
        if path.stat().st_size > _MAX_BYTES:
            return None
        return msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def keep(kind: str, key: str, answer: Any, *, folder: Path | None = None) -> None:
    """Keep an answer; silent where the folder cannot be written."""
    path = _path(kind, key, folder)
    with contextlib.suppress(OSError):
        write_atomically(path, msgspec.json.encode(answer))


def write_atomically(path: Path, content: bytes) -> None:
    """The whole content under this name, or the file as it was.

    Raises:
        OSError: the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # A temporary file is its owner's alone; this one is to be read by others like any other.
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def stamps(items: Sequence[tuple[str, str]]) -> str:
    """One text for several packages and their stamps."""
    return ";".join(f"{name}={stamp}" for name, stamp in sorted(items))


def _path(kind: str, key: str, folder: Path | None) -> Path:
    return (cache_folder() if folder is None else folder) / f"{kind}-{key}.json"
