"""Progress on stderr: what is being done, and how far it is. Silent when stderr is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dflash_doctor.session import Listener, Quiet

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress_listener(*, quiet: bool) -> Iterator[Listener]:
    """A listener that draws a line per phase while the block runs."""
    if quiet or not sys.stderr.isatty():
        yield Quiet()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        SpinnerColumn(finished_text="✓"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        listener = _Lines(progress)
        try:
            yield listener
        finally:
            listener.finish()


class _Lines:
    """One progress line per phase; a phase without counts shows a spinner only."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: int | None = None
        self._text = ""

    def phase(self, name: str, detail: str = "") -> None:
        """Tick the line before and begin the next."""
        self.finish()
        self._text = f"{name}: {detail}" if detail else name
        self._task = self._progress.add_task(self._text, total=None)

    def progress(self, done: int, total: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._progress.update(self._task, completed=done, total=total)  # type: ignore[arg-type]

    def trying(self, what: str) -> None:
        """Show it on the line of the phase."""
        if self._task is not None:
            self._progress.update(self._task, description=f"{self._text}: {what}")  # type: ignore[arg-type]

    def note(self, text: str) -> None:
        """Print above the bars."""
        self._progress.console.print(text, markup=False)

    def finish(self) -> None:
        """Tick the last line."""
        if self._task is not None:
            task = next(item for item in self._progress.tasks if item.id == self._task)
            total = task.total if task.total is not None else 1
            self._progress.update(task.id, completed=total, total=total)
            self._task = None
