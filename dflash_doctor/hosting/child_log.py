"""Finds the lines in an engine's log that say why it failed."""

from __future__ import annotations

import re
from pathlib import Path

_TAIL_BYTES = 256 * 1024
_TELLING = re.compile(
    r"^(?:\(\w+ pid=\d+\)\s*)?(?:\w+ \d\d-\d\d [\d:]+ \[[^\]]+\]\s*)?([A-Za-z_.]*(?:Error|Exception)\b.*)$"
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MAX_LINE = 300


def telling_lines(path: Path, *, most: int = 2) -> tuple[str, ...]:
    """The last lines that read like an exception, oldest first; empty when there are none.

    Only the end of the file is read, so a log of any size is cheap.
    """
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            tail = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ()
    found: list[str] = []
    for line in _COLOUR.sub("", tail).splitlines():
        match = _TELLING.match(line.strip())
        if match and match.group(1)[:_MAX_LINE] not in found:
            found.append(match.group(1)[:_MAX_LINE])
    return tuple(found[-most:])
