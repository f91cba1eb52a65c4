"""The causes a run can name: one line each in causes.tsv, and a page each.

A page is a Markdown file `pages/<cause>.md` with the parts `PARTS`. Adding a cause is a line, a page and a
test.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).resolve().parent

PARTS = ("How it shows", "How it is proven", "What to change", "Training", "Seen in")
"""Parts of a page in their order, after its title and a paragraph on what the cause is."""

_REFERENCE = re.compile(r"^- ([\w.-]+/[\w.-]+#\d+):", re.MULTILINE)


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
    def title(self) -> str:
        """The page's first line, without its mark: the cause as a sentence without a full stop."""
        return self._text.partition("\n")[0].removeprefix("# ")

    @property
    def page(self) -> str:
        """What is known about it, in Markdown, below the title.

        Raises:
            FileNotFoundError: the cause has no page; a test keeps that from being released.
        """
        return self._text.partition("\n")[2].strip()

    @property
    def references(self) -> tuple[str, ...]:
        """Public threads in which it was found, as owner/repository#number; the most telling first."""
        return tuple(_REFERENCE.findall(self._text.partition("**Seen in.**")[2]))

    @property
    def _text(self) -> str:
        return (_HERE / "pages" / f"{self.name}.md").read_text(encoding="utf-8")


@functools.cache
def causes() -> dict[str, CauseEntry]:
    """Every cause by name, in catalog order."""
    lines = (_HERE / "causes.tsv").read_text(encoding="utf-8").splitlines()
    found = {}
    for line in lines[1:]:
        name, modes, kind, summary = line.split("\t")
        found[name] = CauseEntry(name, tuple(modes.split(",")), kind, summary)
    return found
