"""The drafter's chat template renders conversations differently from the target's

## What it checks

Both templates are rendered over the same conversations and compared text by text, token by token at the
first difference; and what each puts before the answer (the generation prompt), with thinking on and off.

## Why it matters

Engines render with the target's template, so the drafter's is evidence of what it was trained on. A suffix
of 14 tokens before the answer accounted for nearly all of a change in acceptance
(lightseekorg/tokenspeed#1305); on the bundled pair another format takes the acceptance length from 4.30 to
1.28.

## Example

    DF203 the templates put different text before the answer
      observed: thinking off: target '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n', drafter
                '<|im_start|>assistant\\n'

## What to do

Render one template everywhere. Ask the release which one the drafter was trained with.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.contract.templates import TemplateComparison
from dflash_doctor.records import Finding, Where


def judge(case: Case) -> Outcome:
    """Judge the differences."""
    contract = case.evidence.contract
    if contract is None or contract.templates is None:
        return skipped("not checked: the chat templates were not read")
    found = contract.templates
    for facts, role in ((found.target, "target"), (found.draft, "drafter")):
        if facts is None:
            return skipped(f"not checked: the {role} brings no chat template")
        if facts.problem is not None:
            return skipped(f"not checked: the {role}'s template: {facts.problem}")
    if not found.num_cases:
        return skipped("not checked: no conversation is rendered by both templates")
    if not found.num_differing:
        return settled([], compared=[f"{found.num_cases} conversations are rendered alike"])
    prompts = _generation_prompts(found, contract.thinking)
    return settled([prompts if prompts is not None else _texts(found)], compared=[])


def _generation_prompts(found: TemplateComparison, mode: str) -> Finding | None:
    """The finding where the text before the answer differs in the mode that is served."""
    assert found.target is not None, "the caller looked"
    assert found.draft is not None, "the caller looked"
    ours, theirs = found.target.generation_prompts.get(mode), found.draft.generation_prompts.get(mode)
    if ours is None or theirs is None or ours == theirs:
        return None
    return Finding(
        code="DF203",
        severity="error",
        message="the templates put different text before the answer",
        observed=f"thinking {mode}: target {ours!r}, drafter {theirs!r}",
        expected="the text that the drafter was trained with",
        remedy="render one template everywhere; ask the release which one the drafter was trained with",
        where=Where(file=found.draft.file, field=found.draft.field),
        causes=("chat-template-mismatch", "thinking-mode-mismatch"),
    )


def _texts(found: TemplateComparison) -> Finding:
    assert found.draft is not None, "the caller looked"
    first = found.differences[0]
    tokens = (
        f"; token {first.token_index}: {first.target_token!r} / {first.draft_token!r}"
        if first.token_index is not None
        else ""
    )
    return Finding(
        code="DF203",
        severity="warning",
        message="the templates render conversations differently",
        observed=f"{found.num_differing} of {found.num_cases}, first {first.case} (thinking {first.thinking})"
        f" at character {first.index}: target '{first.target_excerpt}', "
        f"drafter '{first.draft_excerpt}'{tokens}",
        expected="the same text; engines render with the target's template",
        remedy="ask the release which one the drafter was trained with; measure: dflash-doctor diagnose",
        where=Where(file=found.draft.file, field=found.draft.field),
        causes=("chat-template-mismatch",),
        numbers={"num_differing": found.num_differing, "num_cases": found.num_cases},
    )
