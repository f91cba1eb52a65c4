"""Arithmetic that must hold in any engine's numbers. A broken identity means that some number lies."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from dflash_doctor.evidence import EngineCounters, Generation, RequestTrace

_RATE_TOLERANCE = 1e-6
"""Engines report rates as doubles of integer counts; anything beyond rounding is another formula."""


class IdentityViolation(msgspec.Struct, frozen=True, kw_only=True):
    """One identity that does not hold."""

    identity: str
    prompt_id: str | None
    expected: float
    observed: float
    detail: str


def identity_violations(generation: Generation) -> tuple[IdentityViolation, ...]:
    """Every identity that a pass breaks, per request and for the server's own counters."""
    found: list[IdentityViolation] = []
    for trace in generation.requests:
        if trace.counters is not None:
            found += _of_counters(trace.counters, trace.prompt_id)
        if trace.steps is not None:
            found += _of_steps(trace)
    if generation.server_counters is not None:
        found += _of_counters(generation.server_counters, None)
    return tuple(found)


def _of_counters(counters: EngineCounters, prompt_id: str | None) -> Iterator[IdentityViolation]:
    def differs(identity: str, expected: float, observed: float, detail: str) -> IdentityViolation:
        return IdentityViolation(
            identity=identity, prompt_id=prompt_id, expected=expected, observed=observed, detail=detail
        )

    steps, drafted = counters.num_drafts, counters.num_draft_tokens
    accepted, histogram = counters.num_accepted_draft_tokens, counters.acceptance_histogram
    if accepted is not None and drafted is not None and accepted > drafted:
        yield differs("accepted-within-drafted", drafted, accepted, "more tokens accepted than drafted")
    if histogram is not None and steps is not None and sum(histogram) != steps:
        yield differs("histogram-sums-to-steps", steps, sum(histogram), "entries of acceptance_histogram")
    if histogram is not None and accepted is not None:
        weighted = sum(index * count for index, count in enumerate(histogram))
        if weighted != accepted:
            yield differs(
                "histogram-weighs-accepted", accepted, weighted, "sum of j * acceptance_histogram[j]"
            )
    for name, total in (("per_step_accepted", accepted), ("per_step_drafted", drafted)):
        values = getattr(counters, name)
        if values is None:
            continue
        if total is not None and sum(values) != total:
            yield differs("per-step-sums-to-total", total, sum(values), name)
        if steps is not None and len(values) != steps:
            yield differs("per-step-counts-steps", steps, len(values), name)
    yield from _of_rates(counters, differs)


def _of_rates(counters: EngineCounters, differs: object) -> Iterator[IdentityViolation]:
    """The engine's own averages against its own counts."""
    assert callable(differs)
    steps, drafted = counters.num_drafts, counters.num_draft_tokens
    accepted = counters.num_accepted_draft_tokens
    if accepted is None:
        return
    length = counters.mean_acceptance_length
    if length is not None and steps:
        expected = 1 + accepted / steps
        if not math.isclose(length, expected, abs_tol=_RATE_TOLERANCE, rel_tol=_RATE_TOLERANCE):
            yield differs("acceptance-length-from-counts", expected, length, "1 + accepted / steps")
    rate = counters.draft_acceptance_rate
    if rate is not None and drafted:
        expected = accepted / drafted
        if not math.isclose(rate, expected, abs_tol=_RATE_TOLERANCE, rel_tol=_RATE_TOLERANCE):
            yield differs("acceptance-rate-from-counts", expected, rate, "accepted / drafted")
    positions = counters.accepted_per_position
    if positions is not None and sum(positions) != accepted:
        # The same as AL = 1 + sum of the per-position rates, without the division.
        yield differs("positions-sum-to-accepted", accepted, sum(positions), "accepted per position")


def _of_steps(trace: RequestTrace) -> Iterator[IdentityViolation]:
    def differs(identity: str, expected: float, observed: float, detail: str) -> IdentityViolation:
        return IdentityViolation(
            identity=identity,
            prompt_id=trace.prompt_id,
            expected=expected,
            observed=observed,
            detail=detail,
        )

    steps = trace.steps or ()
    for index, step in enumerate(steps):
        if step.num_accepted > step.num_drafted:
            detail = f"step {index} accepted more than it drafted"
            yield differs("accepted-within-drafted", step.num_drafted, step.num_accepted, detail)
        if step.draft_ids is not None and step.emitted_ids is not None:
            kept, drafted = step.emitted_ids[: step.num_accepted], step.draft_ids[: step.num_accepted]
            if kept != drafted:
                same = sum(one == other for one, other in zip(kept, drafted, strict=False))
                detail = f"step {index} emitted tokens that it did not draft"
                yield differs("accepted-tokens-are-drafts", step.num_accepted, same, detail)
    counters = trace.counters
    if counters is not None:
        for name, attribute in (("per_step_accepted", "num_accepted"), ("per_step_drafted", "num_drafted")):
            reported = getattr(counters, name)
            seen = tuple(getattr(step, attribute) for step in steps)
            if reported is not None and reported != seen:
                detail = f"{name} of the engine against the captured steps"
                yield differs("captured-steps-match-engine", sum(reported), sum(seen), detail)
    yield from _of_emitted(trace, differs)


def _of_emitted(trace: RequestTrace, differs: object) -> Iterator[IdentityViolation]:
    """Prefill gives one token, each step accepted + 1; only the last may overshoot the end of the text."""
    assert callable(differs)
    steps = trace.steps or ()
    if not steps:
        return
    emitted = 1 + sum(step.num_accepted + 1 for step in steps)
    overshoot = emitted - len(trace.output_ids)
    if not 0 <= overshoot <= steps[-1].num_accepted:
        detail = "1 + sum(accepted + 1) against the tokens of the text"
        yield differs("steps-account-for-output", len(trace.output_ids), emitted, detail)
        return
    captured = [token for step in steps for token in step.emitted_ids or ()]
    if len(captured) == emitted - 1:
        text = trace.output_ids[1:]
        same = sum(one == other for one, other in zip(captured, text, strict=False))
        if same != len(text):
            detail = "tokens that the steps emitted against the text"
            yield differs("emitted-tokens-are-the-text", len(text), same, detail)
