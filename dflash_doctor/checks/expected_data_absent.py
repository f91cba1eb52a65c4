"""A number that should be there is not

## What it checks

What the engine's level promises (draft tokens, steps, counters, log-probabilities) against what came.

## Why it matters

When an engine renames a field, a reader that treats missing as zero shows an empty column and a healthy
report. Here a missing number is a finding: it says what is not known and which checks could not be made.

## Example

    DF803 expected data did not come
      seen:     token-level data of the verify steps is missing: this worker has no rejection sampler
      expected: what the engine offers at its level
      do:       read the engine log; upgrade or pin the engine version

## What to do

Look at the reason. If the installed engine version has changed its interface, pin the version that works
or use an engine with a lower level knowingly.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, failed, passed, skipped
from dflash_doctor.evidence import Missing
from dflash_doctor.records import Finding


def judge(case: Case) -> Outcome:
    """Turn what is missing into findings."""
    evidence = case.evidence
    if evidence.speculative is None and not evidence.missing:
        return skipped("nothing was decoded")
    findings = [_finding(item) for item in evidence.missing]
    num_expected = sum(item.expected for item in evidence.missing)
    if num_expected:
        return failed(f"{num_expected} expected data did not come", findings)
    return passed(f"everything that level {evidence.level} promises is there", findings)


def _finding(item: Missing) -> Finding:
    return Finding(
        code="DF803",
        severity="error" if item.expected else "info",
        message="expected data did not come" if item.expected else "some data is left out",
        observed=f"{item.what}: {item.why}",
        expected="what the engine offers at its level" if item.expected else "nothing more",
        remedy=item.remedy,
    )
