"""Compares what the chat templates of target and drafter render."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from dflash_doctor.checkpoints.files import exists, shown
from dflash_doctor.checkpoints.template_battery import MODES, battery
from dflash_doctor.checkpoints.template_file import TemplateFile, read_template, trained_thinking
from dflash_doctor.checkpoints.template_render import Rendering
from dflash_doctor.checkpoints.tokenizer_child import TokenizerFailedError, encode
from dflash_doctor.contract.templates import (
    TemplateComparison,
    TemplateDifference,
    TemplateFacts,
    TemplateFailure,
)

_LIMIT_S = 2.0
_MAX_DIFFERENCES = 5
_EXCERPT = 60

Answers = list[dict[str, str]]


def compare_templates(
    target: Path | None, draft: Path | None, *, limit_s: float = _LIMIT_S
) -> TemplateComparison:
    """What both render over the battery; nothing raises.

    Args:
        target: the target's folder; `None` where it is not on this machine.
        draft: the drafter's.
        limit_s: seconds that one conversation may take.
    """
    cases = battery()
    ours = read_template(target) if target is not None else None
    theirs = read_template(draft) if draft is not None else None
    thinking, source = trained_thinking(draft) if draft is not None else (None, "")
    same = _same(ours, theirs)
    started = [
        _start(file, cases, limit_s) if file is not None and not (same and role == "draft") else None
        for role, file in (("target", ours), ("draft", theirs))
    ]
    mine, others = (item.answers() if item is not None else None for item in started)
    if same:
        others = mine
    differing = _differing(cases, mine, others)
    return TemplateComparison(
        target=_facts(ours, cases, mine),
        draft=_facts(theirs, cases, others),
        num_cases=sum(_both_rendered(pair) for pair in zip(mine or (), others or (), strict=False)),
        num_differing=len(differing),
        differences=_with_tokens(differing[:_MAX_DIFFERENCES], target),
        failures=(*_failures("target", cases, mine), *_failures("draft", cases, None if same else others)),
        trained_thinking=thinking,
        trained_thinking_source=source,
    )


def _same(ours: TemplateFile | None, theirs: TemplateFile | None) -> bool:
    if ours is None or theirs is None or ours.text is None:
        return False
    return ours.text == theirs.text and ours.specials == theirs.specials


def _start(file: TemplateFile, cases: Sequence[dict[str, Any]], limit_s: float) -> Rendering | None:
    if file.text is None:
        return None
    variables = [{**file.specials, "tools": None, "documents": None, **case["variables"]} for case in cases]
    return Rendering(file.text, variables, limit_s=limit_s)


def _facts(
    file: TemplateFile | None, cases: Sequence[dict[str, Any]], answers: Answers | None
) -> TemplateFacts | None:
    if file is None:
        return None
    facts = file.facts()
    if answers is None:
        return facts
    texts = {
        (case["name"], case["thinking"]): answer.get("text")
        for case, answer in zip(cases, answers, strict=True)
    }
    with_prompt = {mode: texts[("one question", mode)] for mode in MODES}
    prompts = {}
    for mode, whole in with_prompt.items():
        before = texts[("without generation prompt", mode)]
        if whole is not None and before is not None and whole.startswith(before):
            prompts[mode] = whole[len(before) :]
    rendered = with_prompt["off"] is not None and with_prompt["on"] is not None
    return msgspec.structs.replace(
        facts,
        generation_prompts=prompts,
        has_thinking_switch=with_prompt["off"] != with_prompt["on"] if rendered else None,
    )


def _both_rendered(pair: tuple[dict[str, str], dict[str, str]]) -> bool:
    return all("text" in answer for answer in pair)


def _differing(
    cases: Sequence[dict[str, Any]], mine: Answers | None, others: Answers | None
) -> list[tuple[TemplateDifference, str, str]]:
    """Differences with both texts, the shortest conversation first."""
    found = []
    for case, one, other in zip(cases, mine or (), others or (), strict=False):
        if not _both_rendered((one, other)) or one["text"] == other["text"]:
            continue
        ours, theirs = one["text"], other["text"]
        index = next(
            (place for place, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]),
            min(len(ours), len(theirs)),
        )
        difference = TemplateDifference(
            case=case["name"],
            thinking=case["thinking"],
            index=index,
            target_excerpt=_excerpt(ours, index),
            draft_excerpt=_excerpt(theirs, index),
        )
        found.append((difference, ours, theirs))
    return sorted(found, key=lambda item: len(item[1]))


def _excerpt(text: str, index: int) -> str:
    """The text around a place, spelled so that every character can be seen."""
    begin = max(0, index - _EXCERPT // 3)
    return repr(text[begin : index + _EXCERPT])[1:-1]


def _with_tokens(
    differing: Sequence[tuple[TemplateDifference, str, str]], target: Path | None
) -> tuple[TemplateDifference, ...]:
    """The differences with the first token that differs, where the target's tokenizer can be loaded."""
    plain = tuple(difference for difference, _, _ in differing)
    if not differing or target is None or not exists(target / "tokenizer.json"):
        return plain
    texts = [text for _, ours, theirs in differing for text in (ours, theirs)]
    try:
        tokens = encode(target / "tokenizer.json", texts)
    except TokenizerFailedError:
        return plain
    found = []
    for number, difference in enumerate(plain):
        mine, other = tokens[2 * number], tokens[2 * number + 1]
        place = next(
            (index for index, pair in enumerate(zip(mine, other, strict=False)) if pair[0] != pair[1]),
            min(len(mine), len(other)),
        )
        found.append(
            msgspec.structs.replace(
                difference,
                token_index=place,
                target_token=_token(mine, place),
                draft_token=_token(other, place),
            )
        )
    return tuple(found)


def _token(tokens: Sequence[str], place: int) -> str:
    return shown(tokens[place]) if place < len(tokens) else "the end"


def _failures(role: str, cases: Sequence[dict[str, Any]], answers: Answers | None) -> list[TemplateFailure]:
    if answers is None:
        return []
    found = [
        TemplateFailure(
            role=role,  # type: ignore[arg-type]
            case=f"{case['name']} (thinking {case['thinking']})",
            kind=answer["kind"],  # type: ignore[arg-type]
            detail=answer.get("detail", ""),
        )
        for case, answer in zip(cases, answers, strict=True)
        if "kind" in answer
    ]
    # A template that does not compile fails everywhere for one reason.
    return found[:1] if found and found[0].kind == "syntax" else found
