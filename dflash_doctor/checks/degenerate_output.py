"""Output repeats itself, so its acceptance means nothing

## What it checks

The longest run of one token, and the share of distinct token pairs, in every output of both arms. A sample
over the limits is void. The check fails when more than half of a category is void.

## Why it matters

A text that loops is the easiest to draft: acceptance goes to its maximum and the speed-up looks
wonderful. Reports of eight tokens per step were one token repeated. And when only the speculative arm
loops, something in the engine broke the text.

## Example

    DF802 the output repeats itself
      seen:     9 of 12 samples of chat are void; chat-003 holds one token 488 times in a row
      expected: at most half of a category
      do:       choose other prompts or the right chat template; the target alone repeats as well

## What to do

If the target alone repeats as well, the prompts, the chat template or the sampling are at fault. If only
the speculative arm does, look at DF301 first.
"""

from __future__ import annotations

from collections.abc import Sequence

from dflash_doctor.checks.base import Case, CheckLimits, Outcome, failed, passed, skipped
from dflash_doctor.evidence import RequestTrace, requests_of
from dflash_doctor.metrics.degeneracy import void_reason
from dflash_doctor.metrics.slices import by_category
from dflash_doctor.records import Finding, Where

_MAX_VOID_SHARE = 0.5


def judge(case: Case) -> Outcome:
    """Count void samples by category."""
    requests = requests_of(case.evidence.speculative)
    if not requests:
        return skipped("the speculative arm was not run")
    also_alone = {
        trace.prompt_id
        for trace in requests_of(case.evidence.target_only)
        if _void_reason(trace, case.limits) is not None
    }
    findings = []
    num_void = 0
    is_failed = False
    for category, members in by_category(requests).items():
        void = [trace for trace in members if _void_reason(trace, case.limits) is not None]
        if not void:
            continue
        num_void += len(void)
        too_many = len(void) > _MAX_VOID_SHARE * len(members)
        is_failed |= too_many
        findings.append(_finding(category, members, void, also_alone, case.limits, too_many=too_many))
    if is_failed:
        return failed(f"{num_void} of {len(requests)} samples are void", findings)
    if findings:
        return passed(f"{num_void} of {len(requests)} samples are void, no category mostly", findings)
    return passed(f"none of {len(requests)} outputs repeats itself")


def _void_reason(trace: RequestTrace, limits: CheckLimits) -> str | None:
    """Why a sample is void under these limits, in words; `None` when it is not."""
    return void_reason(
        trace.output_ids,
        repeat_run=limits.degenerate_repeat_run,
        distinct_bigram_rate=limits.degenerate_distinct_bigram_rate,
    )


def _finding(
    category: str,
    members: Sequence[RequestTrace],
    void: Sequence[RequestTrace],
    also_alone: set[str],
    limits: CheckLimits,
    *,
    too_many: bool,
) -> Finding:
    worst = void[0]
    alone = sum(trace.prompt_id in also_alone for trace in void)
    if alone == len(void):
        remedy = "choose other prompts or the right chat template: the target alone repeats as well"
    else:
        remedy = (
            f"look at DF301 first: {len(void) - alone} of them repeat only with speculation, so the engine "
            "changed the text"
        )
    return Finding(
        code="DF802",
        severity="error" if too_many else "warning",
        message="the output repeats itself",
        observed=f"{len(void)} of {len(members)} samples of {category} are void; {worst.prompt_id} "
        f"{_void_reason(worst, limits)}",
        expected="at most half of a category",
        remedy=remedy,
        where=Where(prompt_id=worst.prompt_id, category=category),
        causes=("degenerate-output",),
        numbers={"num_void": len(void), "num_samples": len(members), "num_void_alone": alone},
    )
