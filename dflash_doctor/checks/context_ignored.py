"""The drafts do not depend on the target's hidden states

## What it checks

Whether the reference drafter takes more verify steps when the rows of its context stand in random order. A
drafter that was made for this target loses most of its acceptance then. It fails when almost nothing is
accepted either way (fewer than 1.5 tokens per step) and the order makes less than 5 % difference, or when a
tensor that carries the context is zero throughout.

## Why it matters

Low acceptance that no setting explains has two opposite reasons: a weak drafter, which reads the context and
is not good enough, and a drafter that cannot read this target at all: made for another one, or with its
projection lost. The first wants training, the second another file.

## Example

    DF407 the drafts ignore the target's hidden states
      observed: 1.01 tokens per step, and 0.4 % more steps [-1.1, 1.9] with the context in random order
      expected: many more steps: a drafter lives on its context
      do:       use the drafter that was made for this very target, or copy its weights again

## What to do

Compare the drafter's model card with the target: name, size, revision. Where they fit, compare the checksum
of the weights with the release.
"""

from __future__ import annotations

from dflash_doctor.checks.base import NO_EXPERIMENTS, Case, Outcome, failed, inconclusive, passed, skipped
from dflash_doctor.records import Finding

_WEAK = 1.5
_LEAST_LOSS = 0.05


def judge(case: Case) -> Outcome:
    """Compare the steps with the context in order and in disorder."""
    experiments = case.metrics.experiments
    if experiments is None or experiments.reference is None:
        return skipped("; ".join(experiments.not_tried) if experiments is not None else NO_EXPERIMENTS)
    reference = experiments.reference
    loss, length = reference.shuffled_excess_steps, reference.overall.mean_acceptance_length.value
    if loss.value is None or length is None:
        return skipped("nothing was drafted in the reference")
    if reference.zero_tensors:
        named = ", ".join(reference.zero_tensors[:3])
        return failed(
            f"{named} is zero throughout",
            [
                _finding(
                    f"{length:.2f} tokens per step; zero throughout: {named}",
                    "draft-weights-not-loaded",
                    explained=1.0,
                )
            ],
        )
    settled = next(
        (
            trial.change
            for trial in experiments.trials
            if trial.kind == "intervention" and trial.verdict == "explains"
        ),
        None,
    )
    if settled is not None:
        # With a wrong setting the drafts fail for that reason, whatever they make of the context.
        return skipped(f"{settled} explains the loss; see DF405")
    seen = f"{length:.2f} tokens per step, and {100 * loss.value:.1f} % more steps"
    if loss.low is not None and loss.high is not None:
        seen += f" [{100 * loss.low:.1f}, {100 * loss.high:.1f}]"
    seen += " with the context in random order"
    if length >= _WEAK or (loss.low is not None and loss.low > _LEAST_LOSS):
        return passed(seen)
    if loss.high is not None and loss.high < _LEAST_LOSS:
        return failed(seen, [_finding(seen, "wrong-drafter-for-target")])
    return inconclusive(f"{seen}; more prompts would decide")


def _finding(seen: str, cause: str, *, explained: float = 0.0) -> Finding:
    return Finding(
        code="DF407",
        severity="error",
        message="the drafts ignore the target's hidden states",
        observed=seen,
        expected="many more steps: a drafter lives on its context",
        remedy="use the drafter that was made for this very target, or copy its weights again",
        causes=(cause,),
        numbers={"explained": explained},
    )
