"""`dflash-doctor selftest`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.errors import EXIT_FINDINGS, EXIT_PASSED

if TYPE_CHECKING:
    from dflash_doctor.selftest.base import SelftestResult

_FIRST_SEED = 100
"""Thresholds were chosen on seeds below it."""


@click.command("selftest")
@click.option(
    "--quick", is_flag=True, help="Only defects of the drafter's files, without running an engine on each."
)
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(min=1), metavar="N",
              help="Specimens of each fault: another seed is another size and place.")  # fmt: skip
@click.option("--first-seed", default=_FIRST_SEED, show_default=True, type=click.IntRange(min=0), metavar="N")
@click.option("--only", multiple=True, metavar="FAULT", help="This fault or control; repeatable.")
@click.option("--pair", "pairs", multiple=True, type=click.Path(path_type=Path, exists=True), metavar="DIR",
              help="Pair to put faults into; repeatable. Default: the bundled pairs.")  # fmt: skip
@click.option("--results", type=click.Path(path_type=Path), metavar="FILE",
              help="JSON Lines of results: kept up to date, and what is in it is not repeated.")  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="List faults and controls with their causes.")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def command(
    *,
    quick: bool,
    seeds: int,
    first_seed: int,
    only: tuple[str, ...],
    pairs: tuple[Path, ...],
    results: Path | None,
    listing: bool,
    debug: bool,
) -> int:
    """Put known faults into healthy pairs and see whether the diagnosis names them.

    Prints accuracy, false alarms and a confusion matrix. Exit status 1 where a cause was missed or a healthy
    pair was accused.
    """
    if listing:
        click.echo(_listing(), nl=False)
        return EXIT_PASSED
    from dflash_doctor.selftest.run import cases_of, run_cases
    from dflash_doctor.selftest.table import confusion_table, misses, summary_table

    chosen = pairs or bundled_pairs()
    cases = cases_of(chosen, range(first_seed, first_seed + seeds), only=only, quick=quick)
    found = run_cases(cases, quick=quick, results_file=results, told=_tell)
    click.echo(f"\n{summary_table(found)}\n\n{confusion_table(found)}")
    wrong = misses(found)
    if wrong:
        click.echo("\nwrong:")
        click.echo("\n".join(f"- {line}" for line in wrong))
    return EXIT_FINDINGS if wrong else EXIT_PASSED


def bundled_pairs() -> tuple[Path, ...]:
    """The pairs that come with the doctor."""
    return tuple(sorted(path.parent for path in bundled_fixtures().glob("tiny_pair*/draft")))


def _tell(result: SelftestResult, number: int, total: int) -> None:
    case = result.case
    named = ", ".join(f"{name} {confidence:.2f}" for name, confidence in result.named[:2]) or "nothing"
    mark = "ok  " if result.is_right else "MISS"
    where = f"{case.pair.name} {case.name} seed {case.seed} ({result.detail})"
    error = f"; {result.error.splitlines()[0]}" if result.error else ""
    line = f"{mark} {number:>3}/{total} {where}: {named}, {result.duration_s:.0f} s{error}"
    click.echo(line, err=True)


def _listing() -> str:
    from dflash_doctor.faults.catalog import CONTROLS, FAULTS

    lines = []
    for title, entries in (("Faults", FAULTS), ("Controls", CONTROLS)):
        lines.append(title)
        for entry in entries:
            causes = " or ".join(entry.causes) or "nothing"
            lines.append(f"  {entry.name:<28} {entry.place:<10} {causes}: {entry.summary}")
    return "\n".join(lines) + "\n"
