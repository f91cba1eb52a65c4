"""The engine drafts worse than the files allow

## What it checks

The plain reference drafter reads the same files as the engine should and drafts along the same texts. Where
the engine takes more verify steps for them, paired text by text, something between the files and the drafts
is lost. It fails when the whole 95 % interval of the excess lies above 3 %, warns when it lies above zero or
when one defect reproduces the engine's own draft tokens, and passes otherwise.

## Why it matters

The files are right and the server is still slow: the usual answer is to blame the drafter and train another
one. Which defect it is shows in the drafts: the reference with that defect put in drafts what the engine
drafts, token for token, and no other defect does.

## Example

    DF404 the engine drafts worse than the drafter's files allow
      observed: 9.8 % more verify steps [7.1, 12.5] than the reference; 78 % of its draft tokens are equal
      expected: the same, within 3 %
      do:       use an engine release that fixes it: context keys of every drafter layer normalised with layer
                0's k_norm weight reproduces 99 % of the engine's draft tokens

## What to do

Report the defect that reproduces the drafts to the engine, with this run. Pin the last good release, or
change the setting that the finding names. Where no defect fits, run the engine in float32 and eager mode and
look again: the difference then has fewer places to hide.
"""

from __future__ import annotations

from dflash_doctor.checks.base import NO_EXPERIMENTS, Case, Outcome, failed, passed, skipped
from dflash_doctor.records import Estimate, Finding, ReferenceRecord, TrialRecord

MAX_EXCESS = 0.03


def judge(case: Case) -> Outcome:
    """Compare the engine's steps with the reference's, and name what reproduces its drafts."""
    experiments = case.metrics.experiments
    if experiments is None or experiments.reference is None:
        return skipped("; ".join(experiments.not_tried) if experiments is not None else NO_EXPERIMENTS)
    reference = experiments.reference
    excess = reference.engine_excess_steps
    if excess.value is None:
        return skipped("the engine's draft tokens are not known, so they cannot be compared")
    explaining = [
        trial for trial in experiments.trials if trial.kind == "reproduction" and trial.verdict == "explains"
    ]
    seen = _seen(excess, reference)
    if excess.low is None or excess.high is None:
        return skipped(f"{seen}: one text is too few for a verdict")
    if excess.low > MAX_EXCESS:
        return failed(seen, [_finding("error", seen, explaining, excess.value)])
    if explaining or excess.low > 0:
        return passed(seen, [_finding("warning", seen, explaining, excess.value)])
    return passed(seen)


def _seen(excess: Estimate, reference: ReferenceRecord) -> str:
    assert excess.value is not None, "the caller looked"
    more = "more" if excess.value >= 0 else "fewer"
    text = f"{100 * abs(excess.value):.1f} % {more} verify steps than the reference"
    if excess.low is not None and excess.high is not None:
        text += f" [{100 * excess.low:.1f}, {100 * excess.high:.1f}]"
    equal = reference.equal_drafts.value
    return text if equal is None else f"{text}; {100 * equal:.1f} % of its draft tokens are equal"


def _finding(severity: str, seen: str, explaining: list[TrialRecord], excess: float) -> Finding:
    best = explaining[0] if explaining else None
    if best is not None and best.after.value is not None:
        proof = f"{best.change} reproduces {100 * best.after.value:.1f} % of the engine's draft tokens"
        remedy = f"{best.remedy}: {proof}"
    else:
        remedy = (
            "no defect that was tried reproduces its drafts: compare eager mode, float32 and other releases"
        )
    return Finding(
        code="DF404",
        severity="error" if severity == "error" else "warning",
        message="the engine drafts worse than the drafter's files allow",
        observed=seen,
        expected=f"the same, within {100 * MAX_EXCESS:.0f} %",
        remedy=remedy,
        causes=tuple(dict.fromkeys(trial.cause for trial in explaining)),
        numbers={"explained": max(0.0, excess / (1 + excess))},
    )
