"""Nothing is drafted

## What it checks

That the speculative arm verified at least one draft although it had tokens to decode.

## Why it matters

An engine may fall back to plain decoding without an error: the drafter was not resolved, the method is
not supported for this model class, or the batch is above a configured limit. Everything then looks
healthy, and nothing is faster. A benchmark that divides by zero drafts shows an acceptance length of 1.

## Example

    DF401 nothing was drafted
      seen:     0 drafts over 8,871 output tokens
      expected: at least one draft per request of two tokens or more
      do:       name the drafter and method explicitly; look for a fallback in the engine log

## What to do

Give `--method` and `--draft` explicitly, read the engine log for a line about the drafter, and check
`num_speculative_tokens_per_batch_size` or similar limits.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, failed, passed, skipped
from dflash_doctor.evidence import requests_of
from dflash_doctor.records import Finding


def judge(case: Case) -> Outcome:
    """Count drafts."""
    requests = requests_of(case.evidence.speculative)
    overall = case.metrics.overall
    if overall is None or not requests:
        return skipped("the speculative arm was not run")
    if overall.num_drafts is None:
        return skipped("the engine reports no drafts; see DF803")
    decoded = sum(max(0, len(trace.output_ids) - 1) for trace in requests)
    if decoded == 0:
        return skipped("every output ended with its first token, which prefill gives")
    if overall.num_drafts > 0:
        return passed(f"{overall.num_drafts} drafts over {overall.num_output_tokens} output tokens")
    return failed(
        "no draft was verified",
        [
            Finding(
                code="DF401",
                severity="error",
                message="nothing was drafted",
                observed=f"0 drafts over {overall.num_output_tokens} output tokens",
                expected="at least one draft in every request of two tokens or more",
                remedy="name --method and --draft explicitly; look for a fallback in the engine log",
                causes=("speculation-inactive",),
                numbers={"num_drafts": 0, "num_output_tokens": overall.num_output_tokens},
            )
        ],
    )
