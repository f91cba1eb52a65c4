"""Almost no draft token is accepted

## What it checks

That the mean acceptance length, with its 95 % interval over requests, lies above the limit (1.1 by
default: one accepted draft token in ten steps). It fails when the whole interval lies at or below the
limit, passes when the whole interval lies above, and is inconclusive in between.

## Why it matters

At 1.0 every step yields only the token that plain decoding would have given, and still pays for drafting
and for verifying K more positions. Nothing errors: the text is right and the server is slower. This is how
nearly every defect of a pair looks from outside (a wrong tap, mask, rotary base, head or vocabulary map).

## Example

    DF402 almost no draft token is accepted
      seen:     acceptance length 1.02 [1.01, 1.03] over 2,400 steps; position 0 accepted in 1.6 %
      expected: above 1.1
      do:       the drafts read 0, 1, 2, ...: run the drafter in bfloat16

## What to do

The finding names the first suspects by the shape of the curve and by the draft tokens themselves. They
are suspects, not causes: a cause needs an experiment.
"""

from __future__ import annotations

import math

from dflash_doctor.checks.base import Case, Outcome, failed, inconclusive, passed, skipped
from dflash_doctor.evidence import requests_of
from dflash_doctor.metrics.signatures import DraftSignature, draft_signature
from dflash_doctor.records import AcceptanceMetrics, Finding

_ALIVE = 0.15
"""A first position accepted this often is alive; the drafter sees the right context at least there."""
_DEAD = 0.02
_SHIFT_RATIO = 3.0
"""A shifted agreement this many times the unshifted one is no accident."""
_MIN_SHIFTED_AGREEMENT = 0.2


def judge(case: Case) -> Outcome:
    """Compare the interval of the acceptance length with the limit."""
    overall, limit = case.metrics.overall, case.limits.min_acceptance_length
    if overall is None or not overall.num_drafts:
        return skipped("nothing was drafted; see DF401")
    length = overall.mean_acceptance_length
    if length.value is None:
        return skipped("the acceptance length is not known; see DF803")
    seen = f"acceptance length {length.value:.2f} over {overall.num_drafts} steps"
    if length.low is None or length.high is None or overall.num_drafts < case.limits.min_steps_for_verdict:
        return inconclusive(
            f"{seen} in {overall.num_requests} requests; a verdict needs two requests and "
            f"{case.limits.min_steps_for_verdict} steps"
        )
    if length.low > limit:
        return passed(f"{seen} [{length.low:.2f}, {length.high:.2f}]")
    if length.high > limit:
        # The half width shrinks with the root of the number of requests.
        factor = ((length.high - length.low) / 2 / max(abs(length.value - limit), 1e-3)) ** 2
        more = math.ceil(overall.num_requests * max(factor - 1, 0.1))
        return inconclusive(
            f"{seen}; its interval [{length.low:.2f}, {length.high:.2f}] holds the limit {limit:g}: "
            f"about {more} more prompts would decide"
        )
    return failed(f"{seen} [{length.low:.2f}, {length.high:.2f}]", [_finding(case, overall, limit)])


def _finding(case: Case, overall: AcceptanceMetrics, limit: float) -> Finding:
    length, first = overall.mean_acceptance_length, overall.first_position_acceptance_rate.value
    signature = draft_signature(requests_of(case.evidence.speculative))
    remedy, causes = _suspects(signature, [item.acceptance_rate.value for item in case.metrics.by_position])
    position = "" if first is None else f"; position 0 accepted in {100 * first:.1f} % of the steps"
    return Finding(
        code="DF402",
        severity="error",
        message="almost no draft token is accepted",
        observed=f"acceptance length {length.value:.2f} [{length.low:.2f}, {length.high:.2f}] over "
        f"{overall.num_drafts} steps{position}",
        expected=f"above {limit:g}",
        remedy=remedy,
        causes=causes,
        numbers={
            "mean_acceptance_length": length.value or 0.0,
            "limit": limit,
            **{
                name: value
                for name in ("repeated_token_share", "agreement", "agreement_one_early")
                if (value := getattr(signature, name)) is not None
            },
        },
    )


def _suspects(signature: DraftSignature, curve: list[float | None]) -> tuple[str, tuple[str, ...]]:
    """What to look at first, and the causes that look like this; the most telling pattern wins."""
    if (signature.lowest_ids_share or 0) > 0.5:
        return (
            "the drafts read 0, 1, 2, ... as over not-a-number: run the drafter in bfloat16",
            ("draft-dtype-overflow",),
        )
    own = signature.agreement or 0.0
    for shifted, words in (
        (signature.agreement_one_early, "one place late"),
        (signature.agreement_one_late, "one place early"),
    ):
        if shifted is not None and shifted > max(_MIN_SHIFTED_AGREEMENT, _SHIFT_RATIO * own):
            return (
                f"the drafts fit the text {words} ({100 * shifted:.0f} % of the tokens): check whether the "
                "drafter predicts from the anchor slot (sample_from_anchor)",
                ("block-layout-anchor",),
            )
    if (signature.constant_draft_share or 0) > 0.5:
        return (
            "the drafts are one token repeated: check the drafter's head, its dtype and its maximum length",
            ("draft-dtype-overflow", "draft-max-length", "target-head-not-shared"),
        )
    first = next((rate for rate in curve if rate is not None), 0.0)
    rest = sum(rate or 0.0 for rate in curve[1:])
    if first >= _ALIVE and rest < _DEAD:
        return (
            "only the first position lives: check mask_token_id and the rotary settings of the drafter",
            ("mask-token-wrong", "rotary-partial-factor", "rotary-layout", "rotary-theta"),
        )
    if first < _DEAD:
        return (
            "no position lives: check the drafter's head and vocabulary map, that every tensor was loaded, "
            "and that the drafter belongs to this target",
            ("draft-weights-not-loaded", "target-head-not-shared", "wrong-drafter-for-target"),
        )
    return (
        "compare target_layer_ids, mask_token_id, rope_theta and chat template with the drafter's training",
        ("rotary-theta", "mask-token-wrong", "thinking-mode-mismatch"),
    )
