"""What experiments showed, in words that every report shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dflash_doctor.records import Estimate, ExperimentRecord, ReferenceRecord, TrialRecord
from dflash_doctor.reports.wording import interval, percent, percent_interval, plural, seconds

_SHOWN = ("explains", "helps a little", "undecided")
"""Verdicts of trials that a reader may act on, the strongest first."""


@dataclass(frozen=True)
class RuledOut:
    """A cause of which no experiment made anything better.

    Attributes:
        cause: its name in the cause catalog.
        best: the trial that came closest.
        num_trials: how often it was tried.
    """

    cause: str
    best: TrialRecord
    num_trials: int


def shown_trials(experiments: ExperimentRecord) -> list[TrialRecord]:
    """Trials that explain, help or could not be told, in this order."""
    found = [trial for trial in experiments.trials if trial.verdict in _SHOWN]
    return sorted(found, key=lambda trial: _SHOWN.index(trial.verdict))


def ruled_out(experiments: ExperimentRecord) -> list[RuledOut]:
    """Causes of which no experiment made anything better, in the order tried."""
    alive = {trial.cause for trial in shown_trials(experiments)}
    trials: dict[str, list[TrialRecord]] = {}
    for trial in experiments.trials:
        if trial.verdict != "failed" and trial.cause not in alive:
            trials.setdefault(trial.cause, []).append(trial)
    return [RuledOut(cause, max(tried, key=_gain), len(tried)) for cause, tried in trials.items()]


def ruled_out_causes(experiments: ExperimentRecord) -> list[str]:
    """The names of `ruled_out`."""
    return [item.cause for item in ruled_out(experiments)]


def untried(experiments: ExperimentRecord) -> list[str]:
    """What was not tried and why, then the trials that came to nothing."""
    failed = (trial for trial in experiments.trials if trial.verdict == "failed")
    return [*experiments.not_tried, *(f"{trial.change}: {trial.failed}" for trial in failed)]


def reference_words(reference: ReferenceRecord) -> str:
    """What the reference drafter accepts, and where it was run."""
    texts = plural(reference.overall.num_requests, "text")
    length = interval(reference.overall.mean_acceptance_length)
    return f"acceptance length {length} over {texts} ({reference.device}, {reference.dtype})"


def engine_words(reference: ReferenceRecord) -> str | None:
    """The engine beside the reference; `None` where the two were not compared."""
    if reference.engine_excess_steps.value is None:
        return None
    equal = percent_interval(reference.equal_drafts)
    return (
        f"{_steps(reference.engine_excess_steps)} than the reference; {equal} of its draft tokens are equal"
    )


def effect_words(trial: TrialRecord) -> str:
    """Before, after and the effect with its interval."""
    if trial.effect.value is None:
        return "no data"
    if is_share(trial):
        change = f"{percent(trial.before.value)} -> {percent(trial.after.value)}"
        text = f"draft tokens equal to the engine's {change} ({change_words(trial)})"
    else:
        text = change_words(trial)
        if trial.before.value is not None and trial.after.value is not None:
            text += f", {trial.before.value:.2f} -> {trial.after.value:.2f} tokens per step"
    return text if trial.confirmed else f"{text} ({PICKED_ON})"


PICKED_ON = "on the texts it was picked on"


def change_words(trial: TrialRecord) -> str:
    """The effect with its interval: percent of the steps, or points of a share."""
    if trial.effect.value is None:
        return "no data"
    if is_share(trial):
        return f"{100 * trial.effect.value:+.1f} points{_bounds(trial.effect, signed=True)}"
    return _steps(trial.effect)


def is_share(trial: TrialRecord) -> bool:
    """Whether before and after are shares (0..1) and not tokens per step."""
    return trial.measure == "equal-drafts"


def spent_words(experiments: ExperimentRecord) -> str:
    """How many experiments there were and how long they took."""
    tried = plural(len(experiments.trials), "experiment")
    budget = "" if experiments.budget_s is None else f" of {seconds(experiments.budget_s)}"
    return f"{tried} in {seconds(experiments.spent_s)}{budget}"


def _gain(trial: TrialRecord) -> float:
    """How much better it made things; a trial without data comes last."""
    if trial.effect.value is None:
        return float("-inf")
    return trial.effect.value if is_share(trial) else -trial.effect.value


def _steps(change: Estimate) -> str:
    """`13.9 % fewer steps [9.6, 18.1]`: the interval speaks of what the word says."""
    assert change.value is not None, "callers look first"
    if change.value > 0:
        return f"{percent(change.value)} more steps{_bounds(change)}"
    low, high = (None if bound is None else -bound for bound in (change.high, change.low))
    fewer = Estimate(value=-change.value, low=low, high=high)
    return f"{percent(abs(change.value))} fewer steps{_bounds(fewer)}"


def _bounds(effect: Estimate, *, signed: bool = False) -> str:
    """The interval in percent with a space before it; empty where there is none."""
    if effect.low is None or effect.high is None:
        return ""
    # Adding zero keeps a bound of nothing from reading "-0.0".
    low, high = (round(100 * bound, 1) + 0.0 for bound in (effect.low, effect.high))
    return f" [{low:+.1f}, {high:+.1f}]" if signed else f" [{low:.1f}, {high:.1f}]"


def largest_length(trials: Sequence[TrialRecord]) -> int:
    """The end of a scale on which all of their tokens per step have room; 2 at least."""
    sides = [side for trial in trials if not is_share(trial) for side in (trial.before, trial.after)]
    return math.ceil(max([2.0, *(side.high or side.value or 0.0 for side in sides)]))
