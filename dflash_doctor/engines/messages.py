"""What the doctor and an engine's child process say to each other: one msgpack message each way.

The doctor sends a `Call`; the child answers with any number of `Progress` and then one `Done` or
`Failed`. `Done.result` is decoded with the type that `RESULT_TYPES` gives for the method.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dflash_doctor.engines.base import (
    Capabilities,
    Continuation,
    Conversation,
    EngineOptions,
    Sampling,
    TokenizedPrompt,
)
from dflash_doctor.evidence import EngineFacts, Generation


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


class Score(msgspec.Struct, tag="score", frozen=True):
    """Answered with log-probabilities per continuation."""

    continuations: tuple[Continuation, ...]


class Close(msgspec.Struct, tag="close", frozen=True):
    """Stop; answered with nothing, then the child ends."""


Call = Start | Describe | Render | TokenTexts | SpecialTokenIds | ChatTemplate | Generate | Score | Close

RESULT_TYPES: dict[type, Any] = {
    Start: Capabilities,
    Describe: EngineFacts,
    Render: tuple[tuple[int, ...], ...],
    TokenTexts: dict[int, str],
    SpecialTokenIds: dict[str, int],
    ChatTemplate: str | None,
    Generate: Generation,
    Score: tuple[tuple[float, ...], ...],
    Close: None,
}


class Progress(msgspec.Struct, tag="progress", frozen=True):
    """A sign of life: requests done, requests in all."""

    done: int
    total: int


class Done(msgspec.Struct, tag="done", frozen=True):
    """The answer to the call, still encoded."""

    result: bytes


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """The call raised; `kind` names the doctor's own exception class, or is `Exception`."""

    kind: str
    what: str
    seen: str
    remedy: str
    traceback: str


Reply = Progress | Done | Failed
