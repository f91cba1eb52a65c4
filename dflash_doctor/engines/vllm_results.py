"""Joins vLLM's request outputs with the captured steps into request traces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dflash_doctor.engines.base import TokenizedPrompt
from dflash_doctor.engines.capture_log import read_steps
from dflash_doctor.evidence import EngineCounters, RequestTiming, RequestTrace, VerifyStep

_LEAST_LOGPROB = -1e9
"""Stands for a probability of zero: JSON has no infinity."""


class CapturedSteps:
    """Captured steps by the request they belong to."""

    def __init__(self, steps: Iterable[tuple[str, VerifyStep]]) -> None:
        found: dict[str, dict[int, VerifyStep]] = defaultdict(dict)
        for request_id, step in steps:
            assert step.position is not None, "the capture always knows the position"
            # Tensor-parallel ranks record the same step: the first one stands.
            found[request_id].setdefault(step.position, step)
        self._by_internal_id = {
            request_id: tuple(step for _, step in sorted(steps.items()))
            for request_id, steps in found.items()
        }
        self._by_request_id = {
            request_id.rsplit("-", 1)[0]: request_id for request_id in self._by_internal_id
        }

    @classmethod
    def read(cls, folder: Path, *, started_s: float) -> CapturedSteps:
        """Everything the workers wrote into `folder`; none when nothing was captured."""
        files = sorted(folder.glob("steps.*.bin"))
        return cls(item for file in files for item in read_steps(file, started_s=started_s))

    def of(self, request_id: str) -> tuple[VerifyStep, ...]:
        """Steps in text order.

        vLLM gives the engine core an id of its own made from the client's (`7` -> `7-0afc0ffe`), in most
        versions; both forms are looked up.
        """
        internal = request_id if request_id in self._by_internal_id else self._by_request_id.get(request_id)
        return self._by_internal_id.get(internal, ()) if internal is not None else ()


def request_trace(
    prompt: TokenizedPrompt, output: Any, captured: CapturedSteps, *, logprobs: bool
) -> RequestTrace:
    """One request as evidence.

    Args:
        prompt: what was asked.
        output: vLLM's `RequestOutput`.
        captured: steps of the whole pass.
        logprobs: whether log-probabilities were asked for.
    """
    completion = output.outputs[0]
    output_ids = tuple(completion.token_ids)
    counters = _counters(getattr(completion, "spec_decode_metrics", None))
    end = len(prompt.token_ids) + len(output_ids)
    # With asynchronous scheduling one more step runs after a request has ended.
    steps = tuple(step for step in captured.of(output.request_id) if (step.position or 0) < end)
    chosen, runner_up = _logprobs(completion) if logprobs else (None, None)
    return RequestTrace(
        prompt_id=prompt.prompt_id,
        category=prompt.category,
        prompt_ids=prompt.token_ids,
        output_ids=output_ids,
        text=completion.text,
        finish_reason=completion.finish_reason,
        steps=steps or _steps_from(counters),
        counters=counters,
        timing=_timing(output.metrics),
        output_logprobs=chosen,
        runner_up_logprobs=runner_up,
        num_cached_prompt_tokens=getattr(output, "num_cached_tokens", None),
    )


def _counters(metrics: Any) -> EngineCounters | None:
    """vLLM's own per-request numbers (0.29 and later with `per_request_spec_decode_metrics`)."""
    if metrics is None:
        return None
    told = metrics.to_dict()
    return EngineCounters(
        num_drafts=told.get("num_spec_steps"),
        num_draft_tokens=told.get("num_draft_tokens"),
        num_accepted_draft_tokens=told.get("num_accepted_draft_tokens"),
        num_spec_tokens=told.get("num_spec_tokens"),
        mean_acceptance_length=told.get("mean_acceptance_length"),
        draft_acceptance_rate=told.get("draft_acceptance_rate"),
        acceptance_histogram=_tuple(told.get("acceptance_histogram")),
        per_step_accepted=_tuple(told.get("per_step_accepted")),
        per_step_drafted=_tuple(told.get("per_step_drafted")),
    )


def _steps_from(counters: EngineCounters | None) -> tuple[VerifyStep, ...] | None:
    """Steps without ids, where the engine at least counted each one."""
    if counters is None or counters.per_step_accepted is None or counters.per_step_drafted is None:
        return None
    return tuple(
        VerifyStep(num_drafted=drafted, num_accepted=accepted)
        for drafted, accepted in zip(counters.per_step_drafted, counters.per_step_accepted, strict=True)
    )


def _timing(stats: Any) -> RequestTiming | None:
    """Seconds from vLLM's request state; `None` when its statistics are off."""
    if stats is None or not stats.last_token_ts:
        return None
    decode = stats.last_token_ts - stats.first_token_ts
    return RequestTiming(
        ttft_s=stats.first_token_latency,
        decode_s=decode,
        e2e_latency_s=stats.first_token_latency + decode,
        queue_s=stats.scheduled_ts - stats.queued_ts,
    )


def _logprobs(completion: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Log-probability of each output token, and of the best token not chosen at the same place."""
    chosen, runner_up = [], []
    for token, row in zip(completion.token_ids, completion.logprobs, strict=True):
        chosen.append(float(row[token].logprob))
        others = (entry.logprob for other, entry in row.items() if other != token)
        runner_up.append(max(float(max(others)), _LEAST_LOGPROB))
    return tuple(chosen), tuple(runner_up)


def _tuple(values: Any) -> Any:
    return None if values is None else tuple(values)
