"""Decodes a workload in rounds, so that a later turn sees the answers to the earlier ones.

Answers are frozen by the first arm that runs: the other arm gets the same token ids, and the two stay
comparable whatever they answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dflash_doctor.engines.base import Engine, TokenizedPrompt
from dflash_doctor.evidence import LEVELS as LEVELS_SHALLOWEST_FIRST
from dflash_doctor.evidence import CaptureReport, Generation, Level
from dflash_doctor.workloads.prompts import Prompt
from dflash_doctor.workloads.turns import conversation_for_turn, num_turns, request_id

GeneratePass = Callable[[Sequence[TokenizedPrompt]], Generation]


def decode_workload(
    engine: Engine, prompts: Sequence[Prompt], *, thinking: str, generate: GeneratePass
) -> tuple[tuple[TokenizedPrompt, ...], Generation]:
    """Every turn of every prompt, decoded once; single-turn prompts take one round.

    Returns:
        The requests as token ids (all rounds, in order), and the rounds joined into one pass.
    """
    answers: dict[str, list[str]] = {prompt.id: [] for prompt in prompts}
    requests: list[TokenizedPrompt] = []
    rounds: list[Generation] = []
    for turn in range(max(num_turns(prompt) for prompt in prompts)):
        asked = [prompt for prompt in prompts if num_turns(prompt) > turn]
        conversations = [conversation_for_turn(prompt, turn, answers[prompt.id]) for prompt in asked]
        token_ids = engine.render(conversations, thinking=thinking)
        batch = [
            TokenizedPrompt(prompt_id=request_id(prompt, turn), category=prompt.category, token_ids=ids)
            for prompt, ids in zip(asked, token_ids, strict=True)
        ]
        generation = generate(batch)
        for prompt, trace in zip(asked, generation.requests, strict=True):
            answers[prompt.id].append(trace.text)
        requests += batch
        rounds.append(generation)
    return tuple(requests), _joined(rounds)


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
