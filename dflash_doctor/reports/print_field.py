"""A name and the text that belongs to it, side by side."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_field(console: Console, name: str, text: str, *, style: str = "", indent: int = 0) -> None:
    """Print `name      text`, the text wrapped beside its name."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, min_width=8 + indent)
    grid.add_column(overflow="fold")
    grid.add_row(Text(" " * indent + name, style="dim"), Text(text, style=style))
    console.print(grid)
