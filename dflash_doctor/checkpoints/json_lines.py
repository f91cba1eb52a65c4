"""Finds the line on which each key of a JSON text stands, so that a finding can point at it."""

from __future__ import annotations

import json
import re

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\n', re.DOTALL)
_MAX_KEYS = 20_000


def key_lines(text: str) -> dict[str, int]:
    """Line (from 1) of every key, by dotted path; entries of lists are not counted.

    A key of an object inside a list has the list's path before it. The text must be valid JSON; of other
    texts the answer is some mapping without meaning. Only the first 20,000 keys are kept. Where a key is
    written twice the last one counts, as it does for the value.
    """
    found: dict[str, int] = {}
    path: list[str] = []
    """Keys that led here; one entry per open object or list."""
    line = 1
    pending: tuple[str, int] | None = None
    current = ""
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == "\n":
            line += 1
        elif token[0] == '"':
            pending = (token, line)
            line += token.count("\n")
        elif token == ":" and pending is not None:
            current = _unquote(pending[0])
            if len(found) < _MAX_KEYS:
                found[".".join([*filter(None, path), current])] = pending[1]
        elif token in "{[":
            path.append(current)
            current = ""
        elif token in "}]":
            if path:
                path.pop()
            current = ""
        elif token == ",":
            current = ""
    return found


def _unquote(token: str) -> str:
    if "\\" not in token:
        return token[1:-1]
    try:
        return str(json.loads(token, strict=False))
    except ValueError:
        return token.strip('"')
