"""What experiments showed, as lines for a terminal: the reference, what explains, what is ruled out."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dflash_doctor.records import Estimate, ExperimentRecord, ReferenceRecord, TrialRecord
from dflash_doctor.reports.print_field import print_field
from dflash_doctor.reports.wording import interval, percent, percent_interval, seconds, visible

_MAX_SHOWN = 5
_SHOWN = ("explains", "helps a little", "undecided")


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
        _reference(console, experiments.reference)
    _trials(console, [trial for trial in experiments.trials if trial.verdict in _SHOWN])
    ruled_out = ruled_out_causes(experiments)
    if ruled_out:
        print_field(console, "ruled out", visible(", ".join(ruled_out)), indent=2)
    failed = [trial for trial in experiments.trials if trial.verdict == "failed"]
    for reason in (*experiments.not_tried, *(f"{trial.change}: {trial.failed}" for trial in failed)):
        print_field(console, "not tried", visible(reason), indent=2, style="dim")
    if experiments.stopped is not None:
        print_field(console, "ended", visible(experiments.stopped), indent=2, style="dim")
    console.print()


def ruled_out_causes(experiments: ExperimentRecord) -> list[str]:
    """Causes of which no experiment made anything better, in the order tried."""
    judged = [trial for trial in experiments.trials if trial.verdict != "failed"]
    alive = {trial.cause for trial in judged if trial.verdict in _SHOWN}
    return list(dict.fromkeys(trial.cause for trial in judged if trial.cause not in alive))


def _reference(console: Console, reference: ReferenceRecord) -> None:
    text = (
        f"acceptance length {interval(reference.overall.mean_acceptance_length)} over "
        f"{reference.overall.num_requests} texts ({reference.device}, {reference.dtype})"
    )
    print_field(console, "reference", visible(text), indent=2)
    excess = reference.engine_excess_steps
    if excess.value is not None:
        more = "more" if excess.value >= 0 else "fewer"
        equal = percent_interval(reference.equal_drafts)
        text = (
            f"{percent(abs(excess.value))} {more} steps than the reference {_bounds(excess)}; {equal} of its "
        )
        print_field(console, "engine", visible(f"{text}draft tokens are equal"), indent=2)


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


def effect_words(trial: TrialRecord) -> str:
    """Before, after and the effect with its interval."""
    if trial.effect.value is None:
        return "no data"
    if trial.measure == "equal-drafts":
        change = f"{percent(trial.before.value)} -> {percent(trial.after.value)}"
        points = f"{100 * trial.effect.value:+.1f} points {_bounds(trial.effect)}"
        text = f"draft tokens equal to the engine's {change} ({points})"
    else:
        fewer = "fewer" if trial.effect.value <= 0 else "more"
        text = f"{percent(abs(trial.effect.value))} {fewer} steps {_bounds(trial.effect)}"
        if trial.before.value is not None and trial.after.value is not None:
            text += f", {trial.before.value:.2f} -> {trial.after.value:.2f} tokens per step"
    return text if trial.confirmed else f"{text} (on the texts it was picked on)"


def _bounds(effect: Estimate) -> str:
    """The interval in percent, smaller number first; empty where there is none."""
    if effect.low is None or effect.high is None:
        return ""
    return f"[{100 * effect.low:+.1f}, {100 * effect.high:+.1f}]"
