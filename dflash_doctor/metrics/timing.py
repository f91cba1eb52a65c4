"""Speed of the uncaptured passes. Not interleaved, so for orientation only."""

from __future__ import annotations

from collections.abc import Sequence

from dflash_doctor.evidence import Evidence, Generation
from dflash_doctor.records import TimingMetrics


def timing_metrics(evidence: Evidence) -> TimingMetrics | None:
    """Tokens a second, time to first token and time per output token of both arms.

    A captured pass is never used: recording costs time. `None` when no pass can be.
    """
    speculative = _timed(evidence.speculative_timing)
    target_only = _timed(evidence.target_only)
    if speculative is None and target_only is None:
        return None
    return TimingMetrics(
        speculative_output_tokens_per_s=_tokens_per_s(speculative),
        target_only_output_tokens_per_s=_tokens_per_s(target_only),
        speculative_duration_s=speculative.duration_s if speculative else None,
        target_only_duration_s=target_only.duration_s if target_only else None,
        speculative_mean_ttft_s=_mean_ttft_s(speculative),
        target_only_mean_ttft_s=_mean_ttft_s(target_only),
        speculative_mean_tpot_s=_mean_tpot_s(speculative),
        target_only_mean_tpot_s=_mean_tpot_s(target_only),
    )


def _timed(generation: Generation | None) -> Generation | None:
    if generation is None or generation.captured or not generation.duration_s:
        return None
    return generation


def _tokens_per_s(generation: Generation | None) -> float | None:
    if generation is None or not generation.duration_s:
        return None
    return sum(len(trace.output_ids) for trace in generation.requests) / generation.duration_s


def _mean_ttft_s(generation: Generation | None) -> float | None:
    if generation is None:
        return None
    return _mean(
        [
            trace.timing.ttft_s
            for trace in generation.requests
            if trace.timing is not None and trace.timing.ttft_s is not None
        ]
    )


def _mean_tpot_s(generation: Generation | None) -> float | None:
    """Mean over requests of decode seconds / (output tokens - 1), as serving benchmarks define TPOT."""
    if generation is None:
        return None
    return _mean(
        [
            trace.timing.decode_s / (len(trace.output_ids) - 1)
            for trace in generation.requests
            if trace.timing is not None and trace.timing.decode_s is not None and len(trace.output_ids) > 1
        ]
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
