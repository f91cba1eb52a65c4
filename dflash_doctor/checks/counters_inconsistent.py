"""The engine's numbers contradict each other

## What it checks

Arithmetic that holds in any engine: the acceptance histogram sums to the steps and weighs the accepted
tokens; accepted tokens are at most the drafted; per-step lists add up to the totals; the engine's own
averages equal the ratio of its counts; captured steps equal the engine's per-step lists; prefill and steps
together give exactly the tokens of the text, except for an overshoot in the last step.

## Why it matters

Known engine versions divide by the wrong denominator, count the prefill token, or lose positions under
data parallelism. A broken identity means that at least one number in this report cannot be trusted, and
every conclusion that uses it falls.

## Example

    DF801 the engine's numbers contradict each other
      seen:     acceptance-length-from-counts in 16 of 16 requests; math-001: 5.6 reported, 5.106 from
                the counts (1 + accepted / steps)
      expected: equal
      do:       use the counts (this report does); report the average to the engine

## What to do

Numbers in this report come from counts, not from the engine's averages. If the counts themselves
contradict each other, upgrade the engine or use another source of acceptance.
"""

from __future__ import annotations

from collections import defaultdict

from dflash_doctor.checks.base import Case, Outcome, failed, passed, skipped
from dflash_doctor.metrics.identities import IdentityViolation, identity_violations
from dflash_doctor.records import Finding, Where


def judge(case: Case) -> Outcome:
    """Group broken identities."""
    passes = [
        generation
        for generation in (case.evidence.speculative, case.evidence.speculative_timing)
        if generation is not None
    ]
    if not passes:
        return skipped("the speculative arm was not run")
    counted = [
        trace
        for generation in passes
        for trace in generation.requests
        if trace.counters is not None or trace.steps is not None
    ]
    if not counted and all(generation.server_counters is None for generation in passes):
        return skipped("the engine reported no counters; see DF803")
    broken: dict[str, list[IdentityViolation]] = defaultdict(list)
    for generation in passes:
        for violation in identity_violations(generation):
            broken[violation.identity].append(violation)
    if not broken:
        return passed(f"every identity holds in {len(counted)} decoded requests")
    return failed(
        f"{len(broken)} identities do not hold",
        [_finding(name, found, len(counted)) for name, found in broken.items()],
    )


def _finding(identity: str, found: list[IdentityViolation], num_requests: int) -> Finding:
    first = found[0]
    place = first.prompt_id or "the server's counters"
    return Finding(
        code="DF801",
        severity="error",
        message="the engine's numbers contradict each other",
        observed=f"{identity} broken {len(found)} times in {num_requests} decoded requests; {place}: "
        f"{first.observed:g} where {first.expected:g} follows ({first.detail})",
        expected="equal",
        remedy="trust counts over averages; upgrade the engine if the counts themselves disagree",
        where=Where(prompt_id=first.prompt_id, field=identity),
        causes=("counters-inconsistent",),
        numbers={"num_violations": len(found), "expected": first.expected, "observed": first.observed},
    )
