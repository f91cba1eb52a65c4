"""`dflash-doctor check`."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import click

from dflash_doctor.cli.options import setting_options
from dflash_doctor.errors import UsageError
from dflash_doctor.settings import options, resolve

USED = (
    "target", "draft", "method", "engine", "served_by", "engine_arg", "num_speculative_tokens", "temperature",
    "thinking", "environment_lock", "fail_on",
)  # fmt: skip
"""Settings that the static checks look at."""
FORMATS = ("terminal", "json", "sarif", "html", "fix-plan")


@click.command("check")
@setting_options(leave_out=tuple(item.name for item in options() if item.name not in USED))
@click.option("--config", metavar="FILE", help="Settings file (TOML).")
@click.option("--format", "name", type=click.Choice(FORMATS),
              help="What to write. [default: terminal]")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--fix-plan", is_flag=True, help="Only the exact edits and engine flags; nothing is changed.")
@click.option("--output", metavar="FILE", help="Where to. Default: stdout.")
@click.option("--strict", is_flag=True, help="Exit 3 when any check could not look at what it needs.")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def command(
    *,
    config: str | None,
    name: str | None,
    as_json: bool,
    fix_plan: bool,
    output: str | None,
    strict: bool,
    debug: bool,
    **given: Any,
) -> int:
    """Find everything that files, packages and settings tell of a pair: no engine, no GPU."""
    wanted = _one_format(name, as_json=as_json, fix_plan=fix_plan)
    resolved = resolve(given, config=config)
    from dflash_doctor.cli.exit_code import exit_code
    from dflash_doctor.inspection import inspect

    result = inspect(resolved.settings, origins=resolved.origins)
    if wanted == "terminal" and output is None:
        from dflash_doctor.reports.check_terminal import render_check
        from dflash_doctor.reports.terminal import wants_color

        width = shutil.get_terminal_size((100, 24)).columns
        click.echo(render_check(result.record, width=width, color=wants_color()), nl=False, color=True)
    else:
        _write(wanted, result.record, output)
    return exit_code(result.record, strict=strict)


def _one_format(name: str | None, *, as_json: bool, fix_plan: bool) -> str:
    """The format asked for by any of three options.

    Raises:
        UsageError: two of them ask for different ones.
    """
    asked = {
        f"--format {name}": name,
        "--json": "json" if as_json else None,
        "--fix-plan": "fix-plan" if fix_plan else None,
    }
    given = {flag: format_ for flag, format_ in asked.items() if format_ is not None}
    if len(set(given.values())) > 1:
        raise UsageError(
            "one run is written in one format",
            seen=" and ".join(given),
            remedy=f"give one: {', '.join(given)}",
        )
    return next(iter(given.values()), "terminal")


def _write(name: str, record: Any, output: str | None) -> None:
    from dflash_doctor.reports.catalog import load_renderer

    document = load_renderer("check" if name == "terminal" else name)(record, None)
    if output is None:
        sys.stdout.buffer.write(document)
        return
    from dflash_doctor.cli.report_command import write_document

    write_document(document, output)
