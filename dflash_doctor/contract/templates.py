"""What the chat templates of target and drafter render."""

from __future__ import annotations

from typing import Literal

import msgspec

Role = Literal["target", "draft"]

Thinking = Literal["off", "on", "template"]
"""`enable_thinking` false, true, or not passed at all."""

FailureKind = Literal[
    "missing",
    "unreadable",
    "syntax",
    "refused",
    "error",
    "time-limit",
    "memory-limit",
    "output-too-large",
    "unsafe",
]
"""`refused`: the template itself said no (`raise_exception`), as many do to a system message or to tools."""

PLAIN_CASE = "one-turn"
"""The conversation every chat template has to render: one user message."""


class TemplateFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One side's template: where it stands and what it does."""

    file: str | None = None
    """Name in the checkpoint folder; `None` where there is no template."""
    field: str | None = None
    """Key in that file, where it is JSON."""
    names: tuple[str, ...] = ()
    """Templates by name; a single unnamed one is `default`. `tool_use` is taken when tools are given."""
    sha256: str | None = None
    """Of the text; of all of them with their names where there are several."""
    num_characters: int | None = None
    has_thinking_switch: bool | None = None
    """Whether `enable_thinking` changes any rendering; `None` where nothing was rendered."""
    other_thinking_switch: str | None = None
    """A variable of another name that changes the rendering as a thinking switch would."""
    default_thinking: Literal["off", "on"] | None = None
    """The mode that renders the same as passing no switch; `None` without a switch, or like neither."""
    generation_prompts: dict[Thinking, str] = msgspec.field(default_factory=dict)
    """What `add_generation_prompt` adds after one user message; a mode that failed is absent."""
    problem: str | None = None
    """Why there is no template to render, in words."""


class TemplateFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, or a whole template, that could not be rendered."""

    role: Role
    case: str
    """Empty: the template as a whole."""
    thinking: Thinking | None
    kind: FailureKind
    detail: str


class TemplateDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Where two renderings of one conversation part for the first time."""

    case: str
    thinking: Thinking
    char_index: int
    target_excerpt: str
    """A little before the first difference and a little after it."""
    draft_excerpt: str
    token_index: int | None = None
    """First token that differs, in the target's tokenizer; `None` where it could not be asked."""
    target_id: int | None = None
    """`None` also where this text has no further token."""
    draft_id: int | None = None


class TemplateComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Both templates over one set of conversations, each with thinking off, on and not said."""

    target: TemplateFacts
    draft: TemplateFacts | None = None
    """`None` without a draft folder."""
    is_identical: bool | None = None
    """Byte for byte, special tokens included; then only the target's was rendered."""
    num_cases: int = 0
    """Renderings compared: those that succeeded on every side that has a template."""
    num_differing: int = 0
    differing_cases: tuple[str, ...] = ()
    """Conversations that render differently in some mode, in order."""
    differences: tuple[TemplateDifference, ...] = ()
    """One for each differing rendering, the first few."""
    failures: tuple[TemplateFailure, ...] = ()
    draft_thinking: Literal["off", "on"] | None = None
    """What the drafter says it was trained for; `None` unless it says so in so many words."""
    draft_thinking_source: str | None = None
    """File, and the key or the sentence in it."""
    problem: str | None = None
    """Why nothing could be rendered at all, where that is no template's fault."""
