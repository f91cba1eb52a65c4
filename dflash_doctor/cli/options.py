"""Command line options made from the settings table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from dflash_doctor.settings import Option, options

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def setting_options(
    *, leave_out: Iterable[str] = (), explain: Mapping[str, str] | None = None
) -> Callable[[CommandT], CommandT]:
    """A decorator that adds an option for every setting.

    Values arrive as text and are converted by `settings.resolve`, so that command line, files and
    environment complain in the same words. Options not given are `None` or `()`. `explain` replaces the
    explanation of a setting whose default is another in this command.
    """
    skipped = frozenset(leave_out)

    def decorate(command: CommandT) -> CommandT:
        for item in reversed(options()):
            if item.name not in skipped:
                command = _decorator(item, (explain or {}).get(item.name, item.help))(command)
        return command

    return decorate


def run_options(command: CommandT) -> CommandT:
    """Options of the commands that run something; they say how to show the run, not what to run."""
    for decorator in (
        click.option("--debug", is_flag=True, help="Show a traceback when something fails."),
        click.option("--quiet", is_flag=True, help="No progress on stderr."),
        click.option(
            "--strict",
            is_flag=True,
            help="Exit 3 instead of 0 when any check could not decide or was skipped.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print the run record, and nothing else."),
        click.option(
            "--config",
            metavar="FILE",
            help="Settings file (TOML). Default: dflash-doctor.toml, or pyproject.toml.",
        ),
    ):
        command = decorator(command)
    return command


def _decorator(item: Option, text: str) -> Callable[[CommandT], CommandT]:
    if item.default not in (None, ()):
        text += f" [default: {item.default}]"
    if item.choices is not None:
        text += f" One of: {', '.join(item.choices)}."
    return click.option(
        item.flag,
        item.name,
        metavar=item.metavar or (item.choices and "|".join(item.choices)) or item.type.__name__.upper(),
        multiple=item.multiple,
        help=text,
    )
