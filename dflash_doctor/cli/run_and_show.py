"""Runs a session and shows it: shared by `demo` and `diagnose`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping

import click

from dflash_doctor import session
from dflash_doctor.cli.exit_code import exit_code
from dflash_doctor.cli.progress import progress_listener
from dflash_doctor.reports.terminal import render_terminal, wants_color
from dflash_doctor.runs import encode_record
from dflash_doctor.settings import Settings


def run_and_show(
    settings: Settings,
    origins: Mapping[str, str],
    *,
    as_json: bool,
    quiet: bool,
    strict: bool,
) -> int:
    """Run, print the record or the terminal report to stdout, and give the exit code."""
    with progress_listener(quiet=quiet) as listener:
        result = session.run(settings, listener=listener, origins=origins)
    if as_json:
        sys.stdout.buffer.write(encode_record(result.record))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        click.echo(render_terminal(result.record, width=width, color=wants_color()), nl=False, color=True)
        if result.record.artifacts.report is not None:
            click.echo(f"report: {result.folder / result.record.artifacts.report}")
    return exit_code(result.record, strict=strict)
