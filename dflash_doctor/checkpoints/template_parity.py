"""What the chat templates of a target and a drafter make of the same conversations, and where they part."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from dflash_doctor.checkpoints.template_battery import (
    THINKING,
    WITHOUT_PROMPT,
    conversations,
    thinking_variables,
)
from dflash_doctor.checkpoints.template_difference import difference_of, encode_all, first_difference
from dflash_doctor.checkpoints.template_file import TemplateSource, read_template
from dflash_doctor.checkpoints.template_render import (
    RenderCase,
    RendererError,
    RenderFailure,
    Rendering,
    RenderTemplate,
    render_templates,
)
from dflash_doctor.checkpoints.thinking_metadata import declared_thinking
from dflash_doctor.contract.templates import (
    PLAIN_CASE,
    FailureKind,
    Role,
    TemplateComparison,
    TemplateDifference,
    TemplateFacts,
    TemplateFailure,
    Thinking,
)

_OTHER_SWITCHES = ("thinking",)
"""Names that some templates use in place of `enable_thinking`."""
_MAX_DIFFERENCES = 12
_MAX_PROMPT = 2000
"""A generation prompt is some dozens of characters; a longer one is cut."""


class _Asked(msgspec.Struct, frozen=True):
    """One rendering that is asked for; `thinking` is `None` for a probe of another switch."""

    case: str
    thinking: Thinking | None
    probe: tuple[str, bool] | None = None


class _Rendered(msgspec.Struct, frozen=True):
    """What one template made of what was asked."""

    texts: dict[_Asked, str]
    failures: tuple[tuple[_Asked | None, RenderFailure], ...]


def compare_templates(
    target_folder: Path, draft_folder: Path | None, *, time_limit_s: float = 5.0
) -> TemplateComparison:
    """Both templates over all conversations, with thinking off, on and not said.

    Never raises for what the folders hold. A drafter that names no special tokens is given the target's.

    Args:
        target_folder: with a tokenizer and a template.
        draft_folder: often without either; `None` describes the target alone.
        time_limit_s: wall clock for all rendering.
    """
    sides: dict[Role, TemplateSource] = {"target": read_template(target_folder)}
    if draft_folder is not None:
        sides["draft"] = _with_tokens_of(sides["target"], read_template(draft_folder))
    is_identical = None
    if all(side.texts for side in sides.values()) and "draft" in sides:
        is_identical = _content(sides["target"]) == _content(sides["draft"])
    to_render = {role: side for role, side in sides.items() if side.texts}
    if is_identical:
        del to_render["draft"]
    rendered, problem = _render(to_render, time_limit_s)
    facts = {
        role: _facts(side, rendered.get("target" if is_identical else role)) for role, side in sides.items()
    }
    common = set.intersection(*(set(one.texts) for one in rendered.values())) if rendered else set()
    parted = _parted(rendered)
    thinking, source = (None, None) if draft_folder is None else declared_thinking(draft_folder)
    return TemplateComparison(
        target=facts["target"],
        draft=facts.get("draft"),
        is_identical=is_identical,
        num_cases=sum(asked.thinking is not None for asked in common),
        num_differing=len(parted),
        differing_cases=tuple(dict.fromkeys(asked.case for asked in parted)),
        differences=_differences(parted, rendered, target_folder),
        failures=tuple(item for role, side in sides.items() for item in _failures(role, side, rendered)),
        draft_thinking=thinking,
        draft_thinking_source=source,
        problem=problem,
    )


def _with_tokens_of(target: TemplateSource, draft: TemplateSource) -> TemplateSource:
    if draft.special_tokens:
        return draft
    return msgspec.structs.replace(draft, special_tokens=target.special_tokens)


def _content(side: TemplateSource) -> tuple[dict[str, str], dict[str, str]]:
    return side.texts, side.special_tokens


@functools.cache
def _everything_asked() -> tuple[_Asked, ...]:
    # Modes outermost: a template that is given up has been asked every conversation in one mode first.
    usual = (_Asked(item.name, mode) for mode in THINKING for item in conversations())
    probes = (_Asked(PLAIN_CASE, None, (name, value)) for name in _OTHER_SWITCHES for value in (False, True))
    return (*usual, *probes)


def _as_case(asked: _Asked) -> RenderCase:
    conversation = next(item for item in conversations() if item.name == asked.case)
    variables = thinking_variables(asked.thinking or "template")
    if asked.probe is not None:
        variables[asked.probe[0]] = asked.probe[1]
    return RenderCase(
        messages=conversation.messages,
        tools=conversation.tools,
        add_generation_prompt=conversation.add_generation_prompt,
        variables=variables,
    )


def _render(
    sides: dict[Role, TemplateSource], time_limit_s: float
) -> tuple[dict[Role, _Rendered], str | None]:
    """What each side made of everything, and why nothing could be rendered at all."""
    asked = _everything_asked()
    templates = [
        RenderTemplate(texts=side.texts, special_tokens=side.special_tokens) for side in sides.values()
    ]
    if not templates:
        return {}, None
    try:
        results = render_templates(templates, [_as_case(item) for item in asked], time_limit_s=time_limit_s)
    except RendererError as error:
        return {}, str(error)
    return {role: _by_asked(asked, result) for role, result in zip(sides, results, strict=True)}, None


def _by_asked(asked: Sequence[_Asked], result: Rendering) -> _Rendered:
    return _Rendered(
        {item: text for item, text in zip(asked, result.texts, strict=True) if text is not None},
        tuple((None if one.case is None else asked[one.case], one) for one in result.failures),
    )


def _facts(side: TemplateSource, rendered: _Rendered | None) -> TemplateFacts:
    texts = {} if rendered is None else rendered.texts
    return TemplateFacts(
        file=side.file,
        field=side.field,
        names=tuple(sorted(side.texts)),
        sha256=side.sha256,
        num_characters=sum(map(len, side.texts.values())) if side.texts else None,
        has_thinking_switch=None if (same := _same(texts, "off", "on")) is None else not same,
        other_thinking_switch=_other_switch(texts),
        default_thinking=_default_thinking(texts),
        generation_prompts={
            mode: prompt for mode in THINKING if (prompt := _generation_prompt(texts, mode)) is not None
        },
        problem=side.problem,
    )


def _same(texts: dict[_Asked, str], one: Thinking, other: Thinking) -> bool | None:
    """Whether two modes render the same everywhere; `None` where no conversation rendered in both."""
    pairs = [
        (texts[_Asked(item.name, one)], texts[_Asked(item.name, other)])
        for item in conversations()
        if _Asked(item.name, one) in texts and _Asked(item.name, other) in texts
    ]
    return all(first == second for first, second in pairs) if pairs else None


def _default_thinking(texts: dict[_Asked, str]) -> Literal["off", "on"] | None:
    if _same(texts, "off", "on") is not False:
        return None
    if _same(texts, "template", "on"):
        return "on"
    return "off" if _same(texts, "template", "off") else None


def _other_switch(texts: dict[_Asked, str]) -> str | None:
    for name in _OTHER_SWITCHES:
        off, on = (texts.get(_Asked(PLAIN_CASE, None, (name, value))) for value in (False, True))
        if off is not None and on is not None and off != on:
            return name
    return None


def _generation_prompt(texts: dict[_Asked, str], mode: Thinking) -> str | None:
    """What `add_generation_prompt` adds to the plain conversation."""
    without, with_ = (texts.get(_Asked(name, mode)) for name in (WITHOUT_PROMPT, PLAIN_CASE))
    if without is None or with_ is None:
        return None
    prompt = with_[first_difference(without, with_) :]
    return prompt if len(prompt) <= _MAX_PROMPT else prompt[:_MAX_PROMPT] + "…"


def _parted(rendered: dict[Role, _Rendered]) -> list[_Asked]:
    """What both sides rendered, and not the same."""
    if set(rendered) != {"target", "draft"}:
        return []
    target, draft = rendered["target"].texts, rendered["draft"].texts
    return [
        asked
        for asked in _everything_asked()
        if asked.thinking is not None and asked in target and asked in draft and target[asked] != draft[asked]
    ]


def _differences(
    parted: Sequence[_Asked], rendered: dict[Role, _Rendered], target_folder: Path
) -> tuple[TemplateDifference, ...]:
    if not parted:
        return ()
    shown = parted[:_MAX_DIFFERENCES]
    pairs = [(rendered["target"].texts[asked], rendered["draft"].texts[asked]) for asked in shown]
    ids = encode_all(target_folder, [text for pair in pairs for text in pair])
    found = []
    for index, (asked, (target, draft)) in enumerate(zip(shown, pairs, strict=True)):
        assert asked.thinking is not None, "probes are not compared"
        both = None if ids is None else (ids[2 * index], ids[2 * index + 1])
        found.append(difference_of(target, draft, case=asked.case, thinking=asked.thinking, ids=both))
    return tuple(found)


def _failures(role: Role, side: TemplateSource, rendered: dict[Role, _Rendered]) -> list[TemplateFailure]:
    if side.problem is not None:
        kind: FailureKind = "missing" if side.file is None else "unreadable"
        return [TemplateFailure(role=role, case="", thinking=None, kind=kind, detail=side.problem)]
    if role not in rendered:
        return []
    return [
        TemplateFailure(
            role=role,
            case="" if asked is None else asked.case,
            thinking=None if asked is None else asked.thinking,
            kind=failure.kind,
            detail=failure.detail,
        )
        for asked, failure in rendered[role].failures
        if asked is None or asked.probe is None
    ]
