"""What a trial shows: before, after, and the paired effect with its interval."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from dflash_doctor.metrics.statistics import ratio_estimate, t_quantile
from dflash_doctor.records import Estimate, TrialVerdict
from dflash_doctor.trials import Trial, TrialCounts

MIN_STEPS_SAVED = 0.02
"""A change that saves fewer verify steps than this is not worth naming a cause for."""
MIN_GAP_CLOSED = 0.5
"""A defect that explains fewer of the unequal drafts than this is not the engine's defect."""


class TrialEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A trial in numbers."""

    before: Estimate
    """Tokens per step; for equal-drafts the share of equal draft tokens."""
    after: Estimate
    effect: Estimate
    """verify-steps and acceptance: relative change of steps per token (negative is better); equal-drafts:
    change of the share (positive is better)."""
    verdict: TrialVerdict


def trial_effect(trial: Trial, tokens: dict[str, int] | None = None) -> TrialEffect:
    """Judged on the confirmation where there is one; screening alone never explains anything.

    Args:
        trial: what was counted.
        tokens: answer tokens by prompt id, to state steps as tokens per step; without them
            `before` and `after` have no value.
    """
    counts = trial.confirmation or trial.screening
    if counts is None or trial.failed is not None:
        nothing = Estimate(value=None, source="absent")
        return TrialEffect(before=nothing, after=nothing, effect=nothing, verdict="failed")
    before, after, effect = _numbers(trial, counts, tokens or {})
    return TrialEffect(
        before=before, after=after, effect=effect, verdict=_verdict(trial, counts, before, effect)
    )


def _numbers(
    trial: Trial, counts: TrialCounts, tokens: dict[str, int]
) -> tuple[Estimate, Estimate, Estimate]:
    before, after = np.asarray(counts.before, float), np.asarray(counts.after, float)
    if trial.measure == "equal-drafts":
        size = np.asarray(counts.size_before, float)
        return (
            ratio_estimate(before, size, bounds=(0.0, 1.0)),
            ratio_estimate(after, np.asarray(counts.size_after, float), bounds=(0.0, 1.0)),
            ratio_estimate(after - before, size, bounds=(-1.0, 1.0)),
        )
    if trial.measure == "acceptance":
        steps_before, steps_after = (
            np.asarray(item, float) for item in (counts.size_before, counts.size_after)
        )
        return (
            ratio_estimate(before, steps_before),
            ratio_estimate(after, steps_after),
            _steps_per_token_change(before, steps_before, after, steps_after),
        )
    length = np.asarray([tokens.get(name, 0) for name in counts.prompt_ids], float)
    known = length.all() and length.size > 0
    absent = Estimate(value=None, source="absent")
    return (
        ratio_estimate(length, before) if known else absent,
        ratio_estimate(length, after) if known else absent,
        ratio_estimate(after, before, offset=-1.0, bounds=(-1.0, math.inf)),
    )


def _steps_per_token_change(
    tokens_before: np.ndarray, steps_before: np.ndarray, tokens_after: np.ndarray, steps_after: np.ndarray
) -> Estimate:
    """Relative change of pooled steps per token, paired by prompt.

    With r = (S' / T') / (S / T), the delta method on log r has the influence of a prompt
    s'/S' - t'/T' - s/S + t/T; variance n / (n - 1) times their sum of squares.
    """
    totals = [float(item.sum()) for item in (tokens_before, steps_before, tokens_after, steps_after)]
    if not all(totals) or len(tokens_before) < 2:
        return Estimate(value=None, source="absent")
    ratio = (totals[3] / totals[2]) / (totals[1] / totals[0])
    influence = (
        steps_after / totals[3]
        - tokens_after / totals[2]
        - steps_before / totals[1]
        + tokens_before / totals[0]
    )
    count = len(influence)
    error = math.sqrt(count / (count - 1) * float((influence**2).sum()))
    reach = t_quantile(count - 1) * error
    return Estimate(
        value=ratio - 1,
        low=ratio * math.exp(-reach) - 1,
        high=ratio * math.exp(reach) - 1,
        num_requests=count,
    )


def _verdict(trial: Trial, counts: TrialCounts, before: Estimate, effect: Estimate) -> TrialVerdict:
    value, low, high = effect.value, effect.low, effect.high
    if value is None:
        return "undecided"
    better_is_up = trial.measure == "equal-drafts"
    gain = value if better_is_up else -value
    if low is None or high is None:
        return "undecided" if gain > 0 else "no effect"
    excludes_zero = low > 0 if better_is_up else high < 0
    if trial.confirmation is None:
        hopeful = gain > 0 and excludes_zero
        return (
            "undecided" if hopeful else ("worse" if (high < 0 if better_is_up else low > 0) else "no effect")
        )
    if not excludes_zero:
        if high < 0 if better_is_up else low > 0:
            return "worse"
        return "undecided" if gain > 0 else "no effect"
    if better_is_up:
        gap = 1 - (before.value or 0.0)
        return "explains" if gain >= MIN_GAP_CLOSED * gap else "helps a little"
    return "explains" if gain >= MIN_STEPS_SAVED else "helps a little"
