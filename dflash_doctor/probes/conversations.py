"""Decodes a workload in rounds, so that a later turn sees the answers to the earlier ones.

Answers are frozen by the first arm that runs: the other arm gets the same token ids, and the two stay
comparable whatever they answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dflash_doctor.engines.base import Engine, TokenizedPrompt
from dflash_doctor.errors import UsageError
from dflash_doctor.evidence import LEVELS as LEVELS_SHALLOWEST_FIRST
from dflash_doctor.evidence import CaptureReport, Generation, Level
from dflash_doctor.workloads.prompts import Prompt
from dflash_doctor.workloads.turns import conversation_for_turn, num_turns, request_id

GeneratePass = Callable[[Sequence[TokenizedPrompt]], Generation]


class DecodedWorkload(NamedTuple):
    """A workload after its first decoding."""

    requests: tuple[TokenizedPrompt, ...]
    """All rounds, in order."""
    generation: Generation
    """The rounds joined into one pass."""
    too_long: tuple[str, ...]
    """Requests left out because prompt and one token do not fit the engine."""


def decode_workload(
    engine: Engine,
    prompts: Sequence[Prompt],
    *,
    thinking: str,
    max_model_len: int | None,
    generate: GeneratePass,
) -> DecodedWorkload:
    """Every turn of every prompt, decoded once; single-turn prompts take one round.

    Args:
        engine: renders the conversations.
        prompts: at least one.
        thinking: off, on or template.
        max_model_len: tokens that the engine takes; a longer prompt is left out, with its later turns.
        generate: decodes one round.

    Raises:
        UsageError: not one prompt fits.
    """
    answers: dict[str, list[str]] = {prompt.id: [] for prompt in prompts}
    requests: list[TokenizedPrompt] = []
    rounds: list[Generation] = []
    too_long: list[str] = []
    for turn in range(max(num_turns(prompt) for prompt in prompts)):
        asked = [item for item in prompts if num_turns(item) > turn and len(answers[item.id]) == turn]
        conversations = [conversation_for_turn(prompt, turn, answers[prompt.id]) for prompt in asked]
        fitting = []
        for item, ids in zip(asked, engine.render(conversations, thinking=thinking), strict=True):
            if max_model_len is None or len(ids) < max_model_len:
                fitting.append((item, ids))
            else:
                too_long.append(request_id(item, turn))
        if not fitting:
            continue
        batch = [
            TokenizedPrompt(prompt_id=request_id(prompt, turn), category=prompt.category, token_ids=ids)
            for prompt, ids in fitting
        ]
        generation = generate(batch)
        for (prompt, _), trace in zip(fitting, generation.requests, strict=True):
            answers[prompt.id].append(trace.text)
        requests += batch
        rounds.append(generation)
    if not rounds:
        raise UsageError(
            "every prompt is too long for the engine",
            seen=f"{len(too_long)} prompts, max_model_len {max_model_len}",
            remedy="give shorter prompts, or --engine-arg max_model_len=...",
        )
    return DecodedWorkload(tuple(requests), _joined(rounds), tuple(too_long))


def _joined(rounds: Sequence[Generation]) -> Generation:
    if len(rounds) == 1:
        return rounds[0]
    durations = [generation.duration_s for generation in rounds]
    return Generation(
        arm=rounds[0].arm,
        requests=tuple(trace for generation in rounds for trace in generation.requests),
        captured=rounds[0].captured,
        capture=_joined_capture([item.capture for item in rounds if item.capture is not None]),
        duration_s=sum(value for value in durations if value is not None) if all(durations) else None,
        max_concurrency=rounds[0].max_concurrency,
    )


def _joined_capture(reports: Sequence[CaptureReport]) -> CaptureReport | None:
    """The shallowest level, and everything that went wrong."""
    if not reports:
        return None
    level: Level = min((report.level for report in reports), key=LEVELS_SHALLOWEST_FIRST.index)
    logits = [report.max_logit for report in reports if report.max_logit is not None]
    return CaptureReport(
        level=level,
        reason=next((report.reason for report in reports if report.reason), ""),
        num_steps=sum(report.num_steps for report in reports),
        num_errors=sum(report.num_errors for report in reports),
        last_error=next((report.last_error for report in reports if report.last_error), None),
        max_logit=max(logits, default=None),
    )
