"""Turns a prompt into requests: one for most, one a turn for a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dflash_doctor.engines.base import Conversation
from dflash_doctor.workloads.prompts import Prompt


def num_turns(prompt: Prompt) -> int:
    """Requests that this prompt makes."""
    return len(prompt.request_ids)


def request_id(prompt: Prompt, turn: int) -> str:
    """`math-1` for a single request, `chat-3#2` for the second turn."""
    return prompt.request_ids[turn]


def conversation_for_turn(prompt: Prompt, turn: int, answers: Sequence[str]) -> Conversation:
    """What is sent at this turn.

    Args:
        prompt: any form.
        turn: from 0.
        answers: the model's answers to the turns before, in order; at least `turn` of them.
    """
    if prompt.turns is None:
        return Conversation(messages=prompt.messages, prompt=prompt.prompt)
    messages: list[dict[str, Any]] = []
    for index in range(turn):
        messages.append({"role": "user", "content": prompt.turns[index]})
        messages.append({"role": "assistant", "content": answers[index]})
    messages.append({"role": "user", "content": prompt.turns[turn]})
    return Conversation(messages=tuple(messages))
