"""The engine accepts more when it is asked or set otherwise

## What it checks

The same prompts once more with one thing changed: one request at a time, prompts that are not in the prefix
cache, thinking switched, eager mode, another attention backend, runner or dtype. Acceptance should not care.
It fails when the whole 95 % interval of the steps saved per token lies above zero and at least 5 % are saved
(20 % for the thinking mode, which changes the text itself).

## Why it matters

Verification makes the text the same whatever the drafter does, so a defect that depends on batching, caching
or graphs never shows in the output. It shows as acceptance that comes and goes with load, and is put down to
traffic.

## Example

    DF406 the engine accepts more when it is set otherwise
      observed: 24 requests together -> one at a time: 61.2 % fewer steps per token [55.0, 66.6], 1.06 -> 2.73
                tokens per step over 24 prompts
      expected: no change beyond chance
      do:       run eager or with piecewise graphs, or with fewer sequences, until the engine is fixed

## What to do

Keep the setting that helps until the engine is fixed, and report it with this run: the two runs differ in
one setting, and that is the whole proof.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, failed, passed, skipped
from dflash_doctor.records import Finding, TrialRecord

_LEAST_SAVED = 0.05
_LEAST_SAVED_BY_TEXT = 0.2


def judge(case: Case) -> Outcome:
    """Look for a run with a changed setting that accepts more."""
    experiments = case.metrics.experiments
    runs = [
        trial
        for trial in (experiments.trials if experiments is not None else ())
        if trial.kind in ("engine-run", "traffic")
    ]
    done = [trial for trial in runs if trial.verdict != "failed"]
    if not done:
        return skipped("the engine was not asked otherwise")
    better = [trial for trial in done if _is_worth_naming(trial)]
    better.sort(key=lambda trial: trial.effect.value or 0.0)
    if better:
        return failed(_seen(better[0]), [_finding(trial) for trial in better])
    names = ", ".join(trial.name for trial in done)
    return passed(f"acceptance is the same with {names}")


def _is_worth_naming(trial: TrialRecord) -> bool:
    if trial.verdict != "explains" or trial.effect.value is None:
        return False
    least = _LEAST_SAVED_BY_TEXT if trial.kind == "traffic" else _LEAST_SAVED
    return -trial.effect.value >= least


def _seen(trial: TrialRecord) -> str:
    effect, before, after = trial.effect, trial.before, trial.after
    assert effect.value is not None, "an explaining trial has an effect"
    assert effect.low is not None, "and an interval"
    assert effect.high is not None, "and an interval"
    text = (
        f"{trial.change}: {-100 * effect.value:.1f} % fewer steps per token "
        f"[{-100 * effect.high:.1f}, {-100 * effect.low:.1f}]"
    )
    if before.value is not None and after.value is not None:
        text += f", {before.value:.2f} -> {after.value:.2f} tokens per step"
    return f"{text} over {effect.num_requests} prompts"


def _finding(trial: TrialRecord) -> Finding:
    return Finding(
        code="DF406",
        severity="error",
        message="the engine accepts more when it is asked or set otherwise",
        observed=_seen(trial),
        expected="no change beyond chance",
        remedy=trial.remedy,
        causes=(trial.cause,),
        numbers={"explained": -(trial.effect.value or 0.0)},
    )
