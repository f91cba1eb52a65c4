"""Opens files of a checkpoint folder that anybody may have written: bounded, and never outside the folder."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_HUB_FOLDERS = ("snapshots", "blobs")


class UnfitFileError(Exception):
    """A file that is not read, and why; the text is a sentence without a full stop.

    `remedy` is what to do about it, where that is not to fetch the file again.
    """

    def __init__(self, why: str, *, remedy: str | None = None) -> None:
        super().__init__(why)
        self.remedy = remedy


@dataclass(frozen=True)
class PlainFile:
    """An open regular file and its size in bytes."""

    stream: BinaryIO
    size: int


def exists(path: Path) -> bool:
    """Whether anything lies there, be it a broken link; what cannot be looked at counts as absent."""
    return os.path.lexists(path)


def can_be_opened(path: Path) -> bool:
    """Whether a path leads to a file or folder; what cannot be looked at counts as absent."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def names_in(folder: Path) -> list[str]:
    """Names of what lies in a folder, sorted; none where it is no folder.

    Raises:
        UnfitFileError: it cannot be listed.
    """
    try:
        return sorted(path.name for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        raise UnfitFileError(_reason(error)) from error


def shown(text: str | Path, limit: int = 200) -> str:
    """A name or value out of a file as it can be printed and stored: no half characters, not endless."""
    clean = str(text).encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else f"{clean[:limit]}..."


def open_plain(path: Path) -> PlainFile:
    """Open a regular file; the caller closes the stream.

    Raises:
        UnfitFileError: missing, unreadable, no regular file, or a link that leaves the checkpoint's folder.
    """
    _require_inside(path)
    try:
        # Without O_NONBLOCK the opening of a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise UnfitFileError(_reason(error)) from error
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
        data = read_some(file.stream, max_bytes + 1)
    if len(data) > max_bytes:
        raise UnfitFileError(f"it grew beyond {max_bytes:,} bytes while it was read")
    return data


def read_if_there(path: Path, *, max_bytes: int) -> bytes | None:
    """The whole file; `None` where there is none.

    Raises:
        UnfitFileError: as `read_bytes`.
    """
    return read_bytes(path, max_bytes=max_bytes) if exists(path) else None


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


def read_some(stream: BinaryIO, count: int) -> bytes:
    """At most `count` bytes.

    Raises:
        UnfitFileError: the disk or the network gave an error instead.
    """
    try:
        return stream.read(count)
    except OSError as error:
        raise UnfitFileError(_reason(error)) from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _require_inside(path: Path) -> None:
    """Links may lead within the folder, and from a hub snapshot to the blobs beside it; nowhere else."""
    try:
        if not path.is_symlink():
            return
        folder = path.parent.resolve()
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise UnfitFileError("it is a link that leads nowhere") from error
    snapshots = [place.parent for place in (folder, *folder.parents) if place.parent.name == _HUB_FOLDERS[0]]
    allowed = [folder, *(place.parent / _HUB_FOLDERS[1] for place in snapshots)]
    if not any(real.is_relative_to(root) for root in allowed):
        raise UnfitFileError(
            f"it is a link out of the folder, to {real}",
            remedy=f"name the folder that it leads to: {real.parent}",
        )
