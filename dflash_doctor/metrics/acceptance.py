"""Acceptance over a slice of the traffic: names and formulas as in the README's table of metrics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dflash_doctor.evidence import EngineCounters, RequestTrace
from dflash_doctor.metrics.statistics import mean_estimate, ratio_estimate
from dflash_doctor.metrics.steps import Ints, Mask, StepTable
from dflash_doctor.records import AcceptanceMetrics, Estimate, PositionMetrics

_ABSENT = Estimate(value=None, source="absent")


def acceptance_of_steps(
    table: StepTable, *, label: str, where: Mask | None = None, num_output_tokens: int | None = None
) -> AcceptanceMetrics:
    """Acceptance from per-step data.

    Args:
        table: the steps.
        label: name of the slice.
        where: the rows that belong to it; all by default.
        num_output_tokens: of the slice's requests; `None` counts the tokens that the rows kept.
    """
    rows = np.ones(len(table), bool) if where is None else where
    steps = table.per_request(np.ones(len(table), np.int64), rows)
    drafted = table.per_request(table.drafted, rows)
    accepted = table.per_request(table.accepted, rows)
    kept = table.per_request(table.kept, rows)
    first = table.per_request(table.accepted >= 1, rows)
    width = int(table.drafted[rows].max(initial=0))
    length_bounds = (1.0, width + 1.0)
    with_steps = steps > 0
    return AcceptanceMetrics(
        label=label,
        num_requests=int(with_steps.sum()) if where is not None else table.num_requests,
        num_drafts=int(steps.sum()),
        num_draft_tokens=int(drafted.sum()),
        num_accepted_draft_tokens=int(accepted.sum()),
        rejected_draft_tokens=int(drafted.sum() - accepted.sum()),
        num_output_tokens=int(kept.sum()) if num_output_tokens is None else num_output_tokens,
        num_overshoot_tokens=int((accepted + steps - kept).sum()),
        mean_acceptance_length=ratio_estimate(accepted, steps, offset=1.0, bounds=length_bounds),
        mean_acceptance_length_per_request=mean_estimate(
            (1 + accepted[with_steps] / steps[with_steps]).tolist(), bounds=length_bounds
        ),
        mean_tokens_per_step=ratio_estimate(kept, steps, bounds=(0.0, width + 1.0)),
        draft_acceptance_rate=ratio_estimate(accepted, drafted, bounds=(0.0, 1.0)),
        accepted_per_verified=ratio_estimate(accepted + steps, drafted + steps, bounds=(0.0, 1.0)),
        first_position_acceptance_rate=ratio_estimate(first, steps, bounds=(0.0, 1.0)),
        acceptance_histogram=tuple(np.bincount(table.accepted[rows], minlength=width + 1).tolist()),
    )


def acceptance_of_counters(requests: Sequence[RequestTrace], *, label: str) -> AcceptanceMetrics:
    """Acceptance from what the engine reported per request; what it did not report is absent."""
    reported = [trace.counters for trace in requests if trace.counters is not None]
    complete = [item for item in reported if _has_totals(item)]
    steps, drafted, accepted = (
        np.asarray([getattr(item, name) for item in complete], np.int64)
        for name in ("num_drafts", "num_draft_tokens", "num_accepted_draft_tokens")
    )
    num_output_tokens = sum(len(trace.output_ids) for trace in requests)
    if not complete:
        return _nothing(label, len(requests), num_output_tokens)
    histogram = _summed_histogram(complete)
    return AcceptanceMetrics(
        label=label,
        num_requests=len(requests),
        num_drafts=int(steps.sum()),
        num_draft_tokens=int(drafted.sum()),
        num_accepted_draft_tokens=int(accepted.sum()),
        rejected_draft_tokens=int(drafted.sum() - accepted.sum()),
        num_output_tokens=num_output_tokens,
        num_overshoot_tokens=None,
        mean_acceptance_length=ratio_estimate(accepted, steps, offset=1.0, source="engine"),
        mean_acceptance_length_per_request=mean_estimate(
            (1 + accepted[steps > 0] / steps[steps > 0]).tolist(), source="engine"
        ),
        mean_tokens_per_step=_ABSENT,
        draft_acceptance_rate=ratio_estimate(accepted, drafted, bounds=(0.0, 1.0), source="engine"),
        accepted_per_verified=ratio_estimate(
            accepted + steps, drafted + steps, bounds=(0.0, 1.0), source="engine"
        ),
        first_position_acceptance_rate=_ABSENT
        if histogram is None
        else Estimate(value=sum(histogram[1:]) / sum(histogram) if sum(histogram) else None, source="engine"),
        acceptance_histogram=histogram,
    )


def position_metrics(table: StepTable) -> tuple[PositionMetrics, ...]:
    """Acceptance at each draft position.

    The marginal rate divides by all steps, so that the acceptance length is 1 + its sum; the conditional
    one by the steps that drafted the position and accepted the one before.
    """
    everywhere = np.ones(len(table), bool)
    steps = table.per_request(np.ones(len(table), np.int64), everywhere)
    found = []
    for position in range(int(table.drafted.max(initial=0))):
        drafted_here = table.drafted > position
        accepted = table.per_request(table.accepted > position, everywhere)
        reached = table.per_request(drafted_here & (table.accepted >= position), everywhere)
        found.append(
            PositionMetrics(
                position=position,
                num_drafted=int(drafted_here.sum()),
                num_accepted=int(accepted.sum()),
                acceptance_rate=ratio_estimate(accepted, steps, bounds=(0.0, 1.0)),
                conditional_acceptance_rate=ratio_estimate(accepted, reached, bounds=(0.0, 1.0)),
            )
        )
    return tuple(found)


def _has_totals(counters: EngineCounters) -> bool:
    return None not in (
        counters.num_drafts,
        counters.num_draft_tokens,
        counters.num_accepted_draft_tokens,
    )


def _summed_histogram(reported: Sequence[EngineCounters]) -> tuple[int, ...] | None:
    """Histograms added up; `None` when any request lacks one, since a partial sum would mislead."""
    histograms = [item.acceptance_histogram for item in reported]
    if any(histogram is None for histogram in histograms):
        return None
    total: Ints = np.zeros(max(len(histogram or ()) for histogram in histograms), np.int64)
    for histogram in histograms:
        total[: len(histogram or ())] += np.asarray(histogram, np.int64)
    return tuple(total.tolist())


def _nothing(label: str, num_requests: int, num_output_tokens: int) -> AcceptanceMetrics:
    return AcceptanceMetrics(
        label=label,
        num_requests=num_requests,
        num_drafts=None,
        num_draft_tokens=None,
        num_accepted_draft_tokens=None,
        rejected_draft_tokens=None,
        num_output_tokens=num_output_tokens,
        num_overshoot_tokens=None,
        mean_acceptance_length=_ABSENT,
        mean_acceptance_length_per_request=_ABSENT,
        mean_tokens_per_step=_ABSENT,
        draft_acceptance_rate=_ABSENT,
        accepted_per_verified=_ABSENT,
        first_position_acceptance_rate=_ABSENT,
        acceptance_histogram=None,
    )
