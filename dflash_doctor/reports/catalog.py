"""The report formats, one line each. Importing this loads none of them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dflash_doctor.reports.base import Renderer


@dataclass(frozen=True)
class FormatEntry:
    """A format by its name on the command line."""

    name: str
    module: str
    suffix: str
    summary: str


FORMATS: tuple[FormatEntry, ...] = (
    FormatEntry("html", "dflash_doctor.reports.html_page", ".html", "one self-contained page"),
    FormatEntry("json", "dflash_doctor.reports.json_document", ".json", "the run record"),
    FormatEntry("terminal", "dflash_doctor.reports.terminal", ".txt", "text for a terminal"),
)


def format_names() -> tuple[str, ...]:
    """Names in catalog order."""
    return tuple(entry.name for entry in FORMATS)


def load_renderer(name: str) -> Renderer:
    """The function that writes the format called `name`."""
    entry = next(entry for entry in FORMATS if entry.name == name)
    renderer: Renderer = importlib.import_module(entry.module).render
    return renderer
