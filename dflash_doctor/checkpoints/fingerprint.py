"""Identifies a checkpoint by what its config and tensor headers say, without reading weights."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

_LENGTH = struct.Struct("<Q")
_MAX_HEADER_BYTES = 100 * 1024 * 1024
"""The safetensors format's own limit for a header."""


def checkpoint_sha256(folder: str | Path) -> str | None:
    """SHA-256 over config.json and every safetensors header, in file name order.

    Two checkpoints of the same shape and config but other weights have the same value: it tells
    architectures apart, not trainings. `None` for a hub id or a folder without a config.
    """
    root = Path(folder)
    config = root / "config.json"
    if not config.is_file():
        return None
    digest = hashlib.sha256(config.read_bytes())
    for file in sorted(root.glob("*.safetensors")):
        digest.update(file.name.encode())
        digest.update(_header(file))
    return digest.hexdigest()


def _header(file: Path) -> bytes:
    """The raw header; empty where the length is absurd or the file is cut short."""
    with file.open("rb") as stream:
        prefix = stream.read(_LENGTH.size)
        if len(prefix) < _LENGTH.size:
            return b""
        (length,) = _LENGTH.unpack(prefix)
        return stream.read(length) if length <= _MAX_HEADER_BYTES else b""
