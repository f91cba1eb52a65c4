"""The calls that an engine in a child process answers."""

from __future__ import annotations

import msgspec

from dflash_doctor.engines.base import (
    Continuation,
    Conversation,
    EngineOptions,
    Sampling,
    TokenizedPrompt,
)
from dflash_doctor.hosting.messages import Close


class Start(msgspec.Struct, tag="start", frozen=True):
    """Build the engine; answered with its `Capabilities`."""

    options: EngineOptions


class Describe(msgspec.Struct, tag="describe", frozen=True):
    """Answered with `EngineFacts`."""


class Render(msgspec.Struct, tag="render", frozen=True):
    """Answered with token ids per conversation."""

    conversations: tuple[Conversation, ...]
    thinking: str


class TokenTexts(msgspec.Struct, tag="token_texts", frozen=True):
    """Answered with a text per id."""

    token_ids: tuple[int, ...]


class SpecialTokenIds(msgspec.Struct, tag="special_token_ids", frozen=True):
    """Answered with an id per added token."""


class ChatTemplate(msgspec.Struct, tag="chat_template", frozen=True):
    """Answered with the template text or nothing."""


class Generate(msgspec.Struct, tag="generate", frozen=True):
    """Answered with a `Generation`."""

    prompts: tuple[TokenizedPrompt, ...]
    sampling: Sampling
    capture: bool
    logprobs: bool
    max_concurrency: int | None
    fresh: bool


class Score(msgspec.Struct, tag="score", frozen=True):
    """Answered with log-probabilities per continuation."""

    continuations: tuple[Continuation, ...]


Call = Start | Describe | Render | TokenTexts | SpecialTokenIds | ChatTemplate | Generate | Score | Close
