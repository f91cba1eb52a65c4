"""What the page's section on experiments prints."""

from __future__ import annotations

from typing import Any

from dflash_doctor.records import AcceptanceMetrics, ExperimentRecord, Metrics, TrialRecord
from dflash_doctor.reports import experiment_words, plots

MAX_TRIALS = 5
"""Trials in sight; the others are folded."""

_BADGES = {"explains": "passed", "helps a little": "info", "undecided": "inconclusive"}


def experiments_view(experiments: ExperimentRecord | None) -> dict[str, Any] | None:
    """The context of the section; `None` where there is nothing to tell."""
    if experiments is None:
        return None
    if not (experiments.reference or experiments.trials or experiments.not_tried or experiments.stopped):
        return None
    shown = experiment_words.shown_trials(experiments)
    longest = experiment_words.largest_length(shown)
    reference = experiments.reference
    return {
        "reference": reference,
        "engine": experiment_words.engine_words(reference) if reference is not None else None,
        "was_tried": reference is not None or bool(experiments.trials),
        "spent": experiment_words.spent_words(experiments),
        "num_trials": len(experiments.trials),
        "trials": [_trial(trial, longest) for trial in shown],
        "max_trials": MAX_TRIALS,
        "ruled_out": [
            {"item": item, "effect": experiment_words.effect_words(item.best)}
            for item in experiment_words.ruled_out(experiments)
        ],
        "untried": experiment_words.untried(experiments),
        "stopped": experiments.stopped,
    }


def reference_rows(metrics: Metrics) -> dict[str, dict[str, AcceptanceMetrics]]:
    """The reference's acceptance by the table and the row in which it is shown; empty without a reference."""
    reference = metrics.experiments.reference if metrics.experiments is not None else None
    if reference is None:
        return {"category": {}, "context": {}, "segment": {}}
    return {
        "category": reference.by_category,
        "context": {row.label: row for row in reference.by_context},
        "segment": reference.by_segment,
    }


def _trial(trial: TrialRecord, longest: float) -> dict[str, Any]:
    is_share = experiment_words.is_share(trial)
    high = 1.0 if is_share else longest
    return {
        "trial": trial,
        "badge": _BADGES[trial.verdict],
        "is_share": is_share,
        "sides": [
            ("before", trial.before, plots.value_bar(trial.before, high, "before")),
            ("after", trial.after, plots.value_bar(trial.after, high, "after")),
        ],
        "effect": experiment_words.change_words(trial),
        "picked_on": None if trial.confirmed else experiment_words.PICKED_ON,
    }
