"""`dflash-doctor report`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from dflash_doctor.errors import UsageError
from dflash_doctor.reports.catalog import format_names


@click.command("report")
@click.argument("run", required=False)
@click.option(
    "--format", "name", type=click.Choice(format_names()), default="terminal", show_default=True,
    help="What to write.",
)  # fmt: skip
@click.option("--output", metavar="FILE", help="Where to. Default: stdout.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the run record instead.")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def command(*, run: str | None, name: str, output: str | None, schema: bool, debug: bool) -> int:
    """Write a recorded run (its folder or run.json) in another format."""
    if schema:
        write_document(_schema(), output)
        return 0
    if run is None:
        raise UsageError("no run was named", seen="no argument", remedy="name a run folder, or give --schema")
    from dflash_doctor.reports.catalog import entry_of, load_renderer
    from dflash_doctor.reports.terminal import render_terminal, wants_color
    from dflash_doctor.runs import read_record, read_traces

    record, folder = read_record(run)
    if name == "terminal" and output is None:
        width = shutil.get_terminal_size((100, 24)).columns
        click.echo(render_terminal(record, width=width, color=wants_color()), nl=False, color=True)
        return 0
    traces = folder / record.artifacts.traces if record.artifacts.traces else None
    evidence = read_traces(traces) if traces is not None and entry_of(name).shows_requests else None
    write_document(load_renderer(name)(record, evidence), output)
    return 0


def _schema() -> bytes:
    import json

    from dflash_doctor.records import json_schema

    return (json.dumps(json_schema(), indent=2) + "\n").encode()


def write_document(document: bytes, output: str | None) -> None:
    if output is None:
        sys.stdout.buffer.write(document)
        return
    from dflash_doctor.runs import replacing

    path = Path(output)
    try:
        with replacing(path) as file:
            file.write(document)
    except OSError as error:
        raise UsageError(
            "the report cannot be written",
            seen=f"{path}: {error.strerror or error}",
            remedy="name a file in a folder that exists",
        ) from error
