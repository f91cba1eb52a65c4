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
    """Has `render(record, evidence) -> bytes`."""
    media_type: str
    suffix: str
    shows_requests: bool
    """Whether it reads the evidence: without, the trace file need not be opened."""
    summary: str


FORMATS: tuple[FormatEntry, ...] = (
    FormatEntry(
        "html",
        "dflash_doctor.reports.html_page",
        "text/html; charset=utf-8",
        ".html",
        True,
        "one self-contained page with a browser of every request",
    ),
    FormatEntry(
        "json",
        "dflash_doctor.reports.json_document",
        "application/json",
        ".json",
        False,
        "the run record",
    ),
    FormatEntry(
        "terminal",
        "dflash_doctor.reports.terminal",
        "text/plain; charset=utf-8",
        ".txt",
        False,
        "text for a terminal",
    ),
    FormatEntry(
        "check",
        "dflash_doctor.reports.check_terminal",
        "text/plain; charset=utf-8",
        ".txt",
        False,
        "the static checks as text, with how each engine reads the drafter",
    ),
    FormatEntry(
        "sarif",
        "dflash_doctor.reports.sarif",
        "application/sarif+json",
        ".sarif",
        False,
        "findings with file and line, for code hosts",
    ),
    FormatEntry(
        "fix-plan",
        "dflash_doctor.reports.fix_plan",
        "text/plain; charset=utf-8",
        ".txt",
        False,
        "the exact edits and engine flags; nothing is changed",
    ),
)


def format_names() -> tuple[str, ...]:
    """Names in catalog order."""
    return tuple(entry.name for entry in FORMATS)


def entry_of(name: str) -> FormatEntry:
    """The entry of the format called `name`, one of `format_names()`."""
    return next(entry for entry in FORMATS if entry.name == name)


def load_renderer(name: str) -> Renderer:
    """The function that writes the format called `name`."""
    renderer: Renderer = importlib.import_module(entry_of(name).module).render
    return renderer
