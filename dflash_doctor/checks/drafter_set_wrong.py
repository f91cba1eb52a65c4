"""The drafter is better with one setting changed

## What it checks

Whether a changed setting lets the reference drafter accept more on the target's own texts: other target
layers, another mask token, other rotary embedding, causality, window, head, layer order. A change is picked
on some of the texts and judged on the others. It fails when the whole 95 % interval of the verify steps saved
lies above zero and at least 2 % are saved.

## Why it matters

A drafter is trained under one setting, and under it alone it is at its best. Any other starts cleanly in
every engine, and only acceptance suffers: a tap list off by one costs a sixth, a lost rotary base nearly all.
Engines cannot see it and the config looks plausible either way.

## Example

    DF405 the drafter accepts more with another setting
      observed: target_layer_ids [2, 4, 5] -> [1, 3, 4]: 15.1 % fewer verify steps [12.0, 18.3], 3.47 -> 4.09
                tokens per step over 76 texts
      expected: no change for the better
      do:       set dflash_config.target_layer_ids = [1, 3, 4] in draft/config.json

## What to do

Make the change that the finding names, and compare with the drafter's original release: somewhere between
the trainer and this folder the value was lost.
"""

from __future__ import annotations

from dflash_doctor.checks.base import NO_EXPERIMENTS, Case, Outcome, failed, passed, skipped
from dflash_doctor.records import Finding, TrialRecord, Where


def judge(case: Case) -> Outcome:
    """Look for an intervention that helps."""
    experiments = case.metrics.experiments
    if experiments is None or experiments.reference is None:
        return skipped("; ".join(experiments.not_tried) if experiments is not None else NO_EXPERIMENTS)
    tried = [trial for trial in experiments.trials if trial.kind == "intervention"]
    explaining = [trial for trial in tried if trial.verdict == "explains"]
    if not tried:
        return skipped(experiments.stopped or "no setting was changed")
    if explaining:
        return failed(_seen(explaining[0]), [_finding(explaining, case)])
    little = [trial for trial in tried if trial.verdict == "helps a little"]
    length = experiments.reference.overall.mean_acceptance_length.value
    reason = f"none of {len(tried)} changed settings accepts more"
    if length is not None:
        reason += f" than the files' own ({length:.2f} in the reference)"
    if little:
        reason += f"; {little[0].change} saves less than 2 %"
    return passed(reason)


def _seen(trial: TrialRecord) -> str:
    effect, before, after = trial.effect, trial.before, trial.after
    assert effect.value is not None, "an explaining trial has an effect"
    assert effect.low is not None, "and an interval"
    assert effect.high is not None, "and an interval"
    text = (
        f"{trial.change}: {-100 * effect.value:.1f} % fewer verify steps "
        f"[{-100 * effect.high:.1f}, {-100 * effect.low:.1f}]"
    )
    if before.value is not None and after.value is not None:
        text += f", {before.value:.2f} -> {after.value:.2f} tokens per step"
    return f"{text} over {effect.num_requests} texts"


def _finding(explaining: list[TrialRecord], case: Case) -> Finding:
    best = explaining[0]
    pair = case.evidence.contract.pair if case.evidence.contract is not None else None
    draft = pair.draft if pair is not None else None
    return Finding(
        code="DF405",
        severity="error",
        message="the drafter accepts more with another setting",
        observed=_seen(best),
        expected="no change for the better",
        remedy=best.remedy,
        causes=tuple(dict.fromkeys(trial.cause for trial in explaining)),
        numbers={"explained": -(best.effect.value or 0.0)},
        where=Where(file=draft.config_file if draft is not None else None),
        edit=best.remedy if best.remedy.startswith("set ") else None,
    )
