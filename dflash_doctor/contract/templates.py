"""What the chat templates of target and drafter render."""

from __future__ import annotations

from typing import Literal

import msgspec

FailureKind = Literal["syntax", "refused", "error", "unsafe", "time-limit", "output-too-large", "crashed"]
"""`refused`: the template itself raised, as some do for a system message. `unsafe`: it reached for what the
sandbox does not give."""


class TemplateFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One chat template."""

    file: str
    field: str | None = None
    """Key that holds it, where the file is JSON."""
    problem: str | None = None
    """Why it was not read; `None` where it was."""
    sha256: str | None = None
    has_thinking_switch: bool | None = None
    """Whether `enable_thinking` changes the rendering, found by trying; `None` where it does not render."""
    generation_prompts: dict[str, str] = msgspec.field(default_factory=dict)
    """What it puts before the answer: by thinking mode (`off`, `on`, `template`)."""


class TemplateFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that a template did not render."""

    role: Literal["target", "draft"]
    case: str
    kind: FailureKind
    detail: str = ""


class TemplateDifference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation that the two render differently, at the first difference."""

    case: str
    thinking: str
    index: int
    """In characters."""
    target_excerpt: str
    draft_excerpt: str
    token_index: int | None = None
    """In tokens of the target's tokenizer, where it could be loaded."""
    target_token: str | None = None
    draft_token: str | None = None


class TemplateComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Both templates over a battery of conversations."""

    target: TemplateFacts | None = None
    """`None`: the target brings no template."""
    draft: TemplateFacts | None = None
    num_cases: int = 0
    """Conversations that both rendered."""
    num_differing: int = 0
    differences: tuple[TemplateDifference, ...] = ()
    """The first few."""
    failures: tuple[TemplateFailure, ...] = ()
    trained_thinking: Literal["off", "on"] | None = None
    """Thinking mode that the drafter's own files say it was trained in."""
    trained_thinking_source: str = ""
