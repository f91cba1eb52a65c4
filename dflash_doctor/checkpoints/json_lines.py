"""Finds the line on which each key of a JSON text stands, so that a finding can point at it."""

from __future__ import annotations

import json
import re

_MARK = re.compile(r'["{}\[\],:\n]')
_DECODER = json.JSONDecoder()
_MAX_KEYS = 20_000
_MAX_PATH = 1000
"""Characters of a path; longer ones are no field of any config."""


def key_lines(text: str) -> dict[str, int]:
    """Line (from 1) of every key, by dotted path; entries of lists are not counted.

    A key of an object inside a list has the list's path before it. The text must be valid JSON; of other
    texts the answer is some mapping without meaning. Only the first 20,000 keys are kept. Where a path is
    written twice the last one counts, as it does for the value.
    """
    found: dict[str, int] = {}
    path: list[str | None] = []
    """Keys that led here; one entry per open object or list, `None` for an entry of a list."""
    line, place = 1, 0
    text_before: tuple[str, int] | None = None
    key: str | None = None
    while len(found) < _MAX_KEYS and (match := _MARK.search(text, place)) is not None:
        mark, place = match.group(), match.end()
        if mark == "\n":
            line += 1
        elif mark == '"':
            text_before, place = _quoted(text, match.start(), line)
        elif mark == ":" and text_before is not None:
            key = text_before[0]
            parts = [*(item for item in path if item is not None), key]
            if sum(map(len, parts)) <= _MAX_PATH:
                found[".".join(parts)] = text_before[1]
        elif mark in "{[":
            path.append(key)
            key = None
        elif mark in "}]":
            if path:
                path.pop()
            key = None
        elif mark == ",":
            key = None
    return found


def _quoted(text: str, start: int, line: int) -> tuple[tuple[str, int] | None, int]:
    """The text that begins at a quotation mark with its line, and where the rest begins."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except ValueError:
        return None, start + 1
    return (str(value).encode("utf-8", "replace").decode(), line), end
