"""Renders chat templates in child processes with limits on time, memory and output."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_CHILD = Path(__file__).with_name("template_child.py")
MAX_CHARS = 1_000_000
_MAX_BYTES = 1024 * 1024 * 1024
_MAX_ANSWER_BYTES = 64 * 1024 * 1024
_STARTUP_S = 20.0
"""A loaded machine may take that long to start Python and compile; nothing is rendered meanwhile."""


class Rendering:
    """One template being rendered over some cases; started at once, waited for by `answers`."""

    def __init__(self, template: str, cases: Sequence[dict[str, Any]], *, limit_s: float) -> None:
        self._num_cases = len(cases)
        self._limit_s = limit_s
        request = {
            "template": template,
            "cases": list(cases),
            "limit_s": limit_s,
            "max_chars": MAX_CHARS,
            "max_bytes": _MAX_BYTES,
        }
        self._request = json.dumps(request).encode("utf-8", "replace")
        # Isolated: neither the folder nor the user's variables decide what is imported.
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def answers(self) -> list[dict[str, str]]:
        """Per case `{"text"}` or `{"kind", "detail"}`; a template that does not compile fails every case."""
        budget = _STARTUP_S + self._limit_s * 3
        try:
            out, _ = self._process.communicate(self._request, timeout=budget)
        except subprocess.TimeoutExpired:
            # A single operation of native code cannot be interrupted from within.
            self._process.kill()
            out, _ = self._process.communicate()
        found = [json.loads(line) for line in out[:_MAX_ANSWER_BYTES].splitlines() if line.endswith(b"}")]
        if len(found) == 1 and found[0].get("kind") == "syntax":
            return found * self._num_cases
        late = self._process.returncode is not None and self._process.returncode < 0
        rest = {
            "kind": "time-limit" if late else "crashed",
            "detail": f"no answer within {budget:g} s" if late else "the renderer ended early",
        }
        return [*found, *[rest] * (self._num_cases - len(found))]
