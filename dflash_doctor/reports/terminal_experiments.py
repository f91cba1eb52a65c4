"""What experiments showed, as lines for a terminal: the reference, what explains, what is ruled out."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dflash_doctor.records import ExperimentRecord, TrialRecord
from dflash_doctor.reports.experiment_words import (
    effect_words,
    engine_words,
    reference_words,
    ruled_out_causes,
    shown_trials,
    untried,
)
from dflash_doctor.reports.print_field import print_field
from dflash_doctor.reports.wording import seconds, visible

_MAX_SHOWN = 5


def print_experiments(console: Console, experiments: ExperimentRecord | None) -> None:
    """Print what was tried; nothing where nothing was."""
    if experiments is None:
        return
    if experiments.reference is None and not experiments.trials:
        if experiments.not_tried:
            print_field(console, "causes", visible("not looked for: " + "; ".join(experiments.not_tried)))
            console.print()
        return
    told = f"{len(experiments.trials)} in {seconds(experiments.spent_s)}"
    console.print(Text.assemble(("experiments", "bold"), f"  {told}"))
    if experiments.reference is not None:
        print_field(console, "reference", visible(reference_words(experiments.reference)), indent=2)
        engine = engine_words(experiments.reference)
        if engine is not None:
            print_field(console, "engine", visible(engine), indent=2)
    _trials(console, shown_trials(experiments))
    causes = ruled_out_causes(experiments)
    if causes:
        print_field(console, "ruled out", visible(", ".join(causes)), indent=2)
    for reason in untried(experiments):
        print_field(console, "not tried", visible(reason), indent=2, style="dim")
    if experiments.stopped is not None:
        print_field(console, "ended", visible(experiments.stopped), indent=2, style="dim")
    console.print()


def _trials(console: Console, trials: list[TrialRecord]) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=10)
    table.add_column(overflow="fold")
    for trial in trials[:_MAX_SHOWN]:
        style = "bold green" if trial.verdict == "explains" else ""
        words = f"{trial.cause}: {trial.change}; {effect_words(trial)}"
        table.add_row(Text(f"  {trial.verdict}", style=style), Text(visible(words)))
    if trials:
        console.print(table)
    if len(trials) > _MAX_SHOWN:
        print_field(console, "", f"and {len(trials) - _MAX_SHOWN} more", style="dim")
