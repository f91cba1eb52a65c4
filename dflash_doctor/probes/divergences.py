"""Finds where speculative and target-only output part, and asks the target what it thinks of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from dflash_doctor.engines.base import Continuation, Engine
from dflash_doctor.evidence import Divergence, Generation, RequestTrace
from dflash_doctor.metrics.divergence import first_divergence

Source = Literal["accepted", "recovered", "bonus", "prefill", "unknown"]


def find_divergences(speculative: Generation, target_only: Generation) -> tuple[Divergence, ...]:
    """The first differing token of every request whose output differs; not scored."""
    by_id = {trace.prompt_id: trace for trace in target_only.requests}
    found = []
    for trace in speculative.requests:
        own = by_id.get(trace.prompt_id)
        if own is None:
            continue
        index = first_divergence(own.output_ids, trace.output_ids)
        if index is None:
            continue
        found.append(
            Divergence(
                prompt_id=trace.prompt_id,
                category=trace.category,
                index=index,
                target_id=own.output_ids[index] if index < len(own.output_ids) else None,
                speculative_id=trace.output_ids[index] if index < len(trace.output_ids) else None,
                source=_source(trace, index),
            )
        )
    return tuple(found)


def score_divergences(
    engine: Engine, divergences: Sequence[Divergence], target_only: Generation
) -> tuple[Divergence, ...]:
    """The divergences with the target's log-probability of both tokens after the common prefix.

    One where a text simply ended, or where the engine cannot score, is returned as it was.

    Raises:
        EngineError: the engine failed while scoring.
    """
    by_id = {trace.prompt_id: trace for trace in target_only.requests}
    scored = list(divergences)
    wanted = [
        place
        for place, divergence in enumerate(divergences)
        if divergence.target_id is not None and divergence.speculative_id is not None
    ]
    if not wanted or not engine.capabilities.can_score:
        return tuple(scored)
    continuations = []
    for place in wanted:
        divergence = divergences[place]
        own = by_id[divergence.prompt_id]
        assert divergence.target_id is not None, "chosen above"
        assert divergence.speculative_id is not None, "chosen above"
        continuations.append(
            Continuation(
                prefix_ids=own.prompt_ids + own.output_ids[: divergence.index],
                token_ids=(divergence.target_id, divergence.speculative_id),
            )
        )
    answers = engine.score(continuations)
    for place, (target_logprob, speculative_logprob) in zip(wanted, answers, strict=True):
        scored[place] = msgspec.structs.replace(
            divergences[place],
            target_logprob=target_logprob,
            speculative_logprob=speculative_logprob,
        )
    return tuple(scored)


def _source(trace: RequestTrace, index: int) -> Source:
    """Which part of a verify step the token at this output index came from."""
    if index == 0:
        return "prefill"
    place = len(trace.prompt_ids) + index
    for step in trace.steps or ():
        if step.position is None or not step.position <= place <= step.position + step.num_accepted:
            continue
        if place < step.position + step.num_accepted:
            return "accepted"
        return "bonus" if step.num_accepted == step.num_drafted else "recovered"
    return "unknown"
