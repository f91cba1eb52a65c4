"""Measures how much the target's own numbers move on this machine, to tell a tie from a fault."""

from __future__ import annotations

import math

from dflash_doctor.evidence import Generation, NumericNoise, RequestTrace
from dflash_doctor.metrics.divergence import first_divergence

_FRACTION_BITS = {"bfloat16": 7, "float16": 10, "float32": 23}
"""Explicit fraction bits of the formats models are served in (IEEE 754; bfloat16 as truncated binary32)."""


def rounding_step(dtype: str | None, magnitude: float | None) -> float | None:
    """One unit in the last place of `dtype` at a value of this magnitude; `None` where either is unknown.

    Logits leave the head in the model's dtype, so two of them this close cannot be told apart.
    """
    bits = _FRACTION_BITS.get(dtype or "")
    if bits is None or magnitude is None or not magnitude > 0:
        return None
    return math.ldexp(1.0, math.floor(math.log2(magnitude)) - bits)


def measure_noise(
    reference: Generation,
    repeats: tuple[Generation, ...],
    *,
    dtype: str | None,
    max_logit: float | None,
    how: str,
) -> NumericNoise:
    """Compare target-only passes that differ only in batching.

    For every output position that two passes reached by the same prefix, and for which both hold
    log-probabilities, the change of (chosen - best not chosen) is taken; the largest is the noise.

    Args:
        reference: one target-only pass with log-probabilities.
        repeats: other passes; those without log-probabilities are compared by text only.
        dtype: the model's.
        max_logit: largest logit seen, for the rounding step.
        how: what the passes were, for the report.
    """
    by_id = {trace.prompt_id: trace for trace in reference.requests}
    changes: list[float] = []
    num_requests = num_differences = 0
    for repeat in repeats:
        for trace in repeat.requests:
            other = by_id.get(trace.prompt_id)
            if other is None:
                continue
            num_requests += 1
            shared = min(len(trace.output_ids), len(other.output_ids))
            parted = first_divergence(trace.output_ids[:shared], other.output_ids[:shared])
            num_differences += parted is not None
            changes += _gap_changes(trace, other, shared if parted is None else parted)
    return NumericNoise(
        num_positions=len(changes),
        max_logprob_gap_change=max(changes, default=0.0),
        num_text_differences=num_differences,
        num_requests=num_requests,
        rounding_step=rounding_step(dtype, max_logit),
        how=how,
    )


def _gap_changes(left: RequestTrace, right: RequestTrace, num_positions: int) -> list[float]:
    """Absolute change of the chosen-minus-runner-up gap at each of the first positions."""
    if left.output_logprobs is None or right.output_logprobs is None:
        return []
    if left.runner_up_logprobs is None or right.runner_up_logprobs is None:
        return []
    return [
        abs(
            (left.output_logprobs[index] - left.runner_up_logprobs[index])
            - (right.output_logprobs[index] - right.runner_up_logprobs[index])
        )
        for index in range(num_positions)
    ]
