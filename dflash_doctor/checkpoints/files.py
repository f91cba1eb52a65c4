"""Opens files of a checkpoint folder that anybody may have written: bounded, and never outside the folder."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_HUB_FOLDERS = ("snapshots", "blobs")


class UnfitFileError(Exception):
    """A file that is not read, and why; the text is a sentence without a full stop."""


@dataclass(frozen=True)
class PlainFile:
    """An open regular file and its size in bytes."""

    stream: BinaryIO
    size: int


def exists(path: Path) -> bool:
    """Whether anything lies there, be it a broken link."""
    return os.path.lexists(path)


def open_plain(path: Path) -> PlainFile:
    """Open a regular file; the caller closes the stream.

    Raises:
        UnfitFileError: missing, unreadable, no regular file, or a link that leaves the checkpoint's folder.
    """
    _require_inside(path)
    try:
        # Without O_NONBLOCK the opening of a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise UnfitFileError(error.strerror or str(error)) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise UnfitFileError("it is not a regular file")
    return PlainFile(os.fdopen(descriptor, "rb"), status.st_size)


def read_bytes(path: Path, *, max_bytes: int) -> bytes:
    """The whole file.

    Raises:
        UnfitFileError: it cannot be opened, or holds more than `max_bytes`.
    """
    file = open_plain(path)
    with file.stream:
        if file.size > max_bytes:
            raise UnfitFileError(f"it has {file.size:,} bytes; at most {max_bytes:,} are read")
        data = file.stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UnfitFileError(f"it grew beyond {max_bytes:,} bytes while it was read")
    return data


def read_text(path: Path, *, max_bytes: int) -> str:
    """The whole file as UTF-8, without a byte order mark.

    Raises:
        UnfitFileError: as `read_bytes`, or not UTF-8.
    """
    data = read_bytes(path, max_bytes=max_bytes)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnfitFileError(f"it is not UTF-8 (byte {error.start})") from error


def _require_inside(path: Path) -> None:
    """Links may lead within the folder, and from a hub snapshot to the blobs beside it; nowhere else."""
    if not path.is_symlink():
        return
    folder = path.parent.resolve()
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise UnfitFileError("it is a link that leads nowhere") from error
    allowed = [folder]
    if folder.parent.name == _HUB_FOLDERS[0]:
        allowed.append(folder.parent.parent / _HUB_FOLDERS[1])
    if not any(real.is_relative_to(root) for root in allowed):
        raise UnfitFileError(f"it is a link out of the folder, to {real}")
