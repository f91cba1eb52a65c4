"""`dflash-doctor explain`."""

from __future__ import annotations

import difflib

import click

from dflash_doctor.checks.catalog import CHECKS, CheckEntry, entry_of, page_of
from dflash_doctor.diagnosis.catalog import CauseEntry, causes
from dflash_doctor.errors import UsageError


@click.command("explain")
@click.argument("name", required=False, metavar="[CODE|NAME|CAUSE]")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def command(*, name: str | None, debug: bool) -> int:
    """Show the page of a check (DF301, greedy-output-differs) or a cause; without a name list all."""
    if name is None:
        click.echo(_listing(), nl=False)
        return 0
    check = entry_of(name)
    if check is not None:
        click.echo(_check_page(check))
        return 0
    cause = causes().get(name.strip().lower())
    if cause is not None:
        click.echo(_cause_page(cause))
        return 0
    known = [entry.code for entry in CHECKS] + [entry.name for entry in CHECKS] + list(causes())
    near = difflib.get_close_matches(name.lower(), [item.lower() for item in known], n=3)
    raise UsageError(
        "there is no such check or cause",
        seen=name,
        remedy=f"did you mean {' or '.join(near)}?" if near else "list them with: dflash-doctor explain",
    )


def _listing() -> str:
    lines = ["Checks"]
    lines += [f"  {entry.code}  {entry.name:<40} {entry.summary}" for entry in CHECKS]
    lines += ["", "Causes"]
    lines += [f"  {entry.name:<40} {entry.summary}" for entry in causes().values()]
    return "\n".join(lines) + "\n"


def _check_page(entry: CheckEntry) -> str:
    return f"# {entry.code} {entry.name} ({entry.family})\n\n{page_of(entry)}"


def _cause_page(entry: CauseEntry) -> str:
    modes = " and ".join(entry.failure_modes)
    return f"# {entry.name}: {entry.title}\n\nKind {entry.kind}; failure mode {modes}.\n\n{entry.page}"
