"""The causes a run can name: one line each in causes.tsv, and a page where there is more to say.

A page is a Markdown file `pages/<cause>.md`: what it is, how it shows, what to change. Adding a cause is a
line, a page and a test.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class CauseEntry:
    """A cause by its stable name."""

    name: str
    failure_modes: tuple[str, ...]
    """Ids of the failure modes seen in the field that it explains."""
    kind: str
    """pair, engine, backend, settings, traffic, measurement, benign, environment"""
    summary: str

    @property
    def page(self) -> str | None:
        """What is known about it, in Markdown; `None` where the summary is all."""
        path = _HERE / "pages" / f"{self.name}.md"
        return path.read_text(encoding="utf-8") if path.is_file() else None


@functools.cache
def causes() -> dict[str, CauseEntry]:
    """Every cause by name, in catalog order."""
    lines = (_HERE / "causes.tsv").read_text(encoding="utf-8").splitlines()
    found = {}
    for line in lines[1:]:
        name, modes, kind, summary = line.split("\t")
        found[name] = CauseEntry(name, tuple(modes.split(",")), kind, summary)
    return found
