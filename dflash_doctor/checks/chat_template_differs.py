"""The drafter comes with another chat template than the target

## What it checks

Where the drafter's folder has a chat template of its own, both templates render the same conversations
(with and without a system message, several turns, tools, reasoning, empty and unusual content), each with
thinking off, on and not said. The renderings and the generation prompts (what is added to make the model
answer) are compared. It is an error when the generation prompt differs in the mode that this run asks
for, and a warning when anything else does.

## Why it matters

Engines render with the target's template only. A drafter that comes with another one was most likely
trained on text in that other form: it then drafts in a context that it never saw. The end of the prompt
matters most, because every answer begins there: in one report a few tokens of assistant suffix explained
nearly the whole loss of acceptance.

## Example

    DF203 the drafter's chat template opens the answer in another way
      seen:     thinking off: the target's adds '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n',
                the drafter's '<|im_start|>assistant\\n'; 19 of 57 renderings differ
      expected: the same prompt as in the drafter's training
      do:       find out which template the drafter was trained with

## What to do

Find out which template the drafter was trained with. If it was the drafter's own: measure acceptance once
with prompts in that form; take a drafter trained on the target's template, or give the engine the
drafter's (`--chat-template` in vLLM and SGLang), which changes what the target is asked as well. If it was
the target's: the file in the drafter's folder is a left-over; replace it.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.quoted_text import quoted
from dflash_doctor.contract.templates import TemplateComparison, TemplateDifference, Thinking
from dflash_doctor.records import Finding, Where

_MAX_NAMED = 4
_MODE_WORDS = {"off": "thinking off", "on": "thinking on", "template": "thinking not said"}


def judge(case: Case) -> Outcome:
    """Compare what both templates rendered."""
    contract = case.evidence.contract
    if contract is None or contract.templates is None:
        return skipped("not checked: nobody looked at the chat templates")
    seen = contract.templates
    open_ = _not_comparable(seen)
    if open_:
        return settled((), compared=(), unchecked=[open_])
    if seen.is_identical:
        return settled((), compared=["both chat templates are the same text"])
    prompts = _prompts(seen, contract.thinking)
    one_sided = _one_sided(seen)
    is_prompt = prompts is not None and prompts[0] != prompts[1]
    unchecked = [] if prompts else [f"the generation prompt with {_mode_words(contract.thinking)}"]
    if not seen.num_differing and not one_sided and not is_prompt:
        compared = [f"both chat templates render the same in all {seen.num_cases} cases"]
        return settled((), compared=compared, unchecked=unchecked)
    finding = _finding(seen, contract.thinking, prompts if is_prompt else None, one_sided)
    return settled([finding], compared=[finding.observed], unchecked=unchecked)


def _not_comparable(seen: TemplateComparison) -> str | None:
    """Why there are not two renderings, in words; `None` where there are."""
    if seen.problem is not None:
        return f"no chat template could be rendered ({seen.problem})"
    if seen.draft is None:
        return "there is no drafter folder to read a chat template from"
    for who, facts in (("target", seen.target), ("drafter", seen.draft)):
        if facts.file is None:
            return f"the {who} has no chat template of its own"
        if facts.problem is not None:
            return f"the {who}'s chat template cannot be read ({facts.problem})"
    if not seen.is_identical and not seen.num_cases:
        return "no conversation was rendered by both chat templates"
    return None


def _prompts(seen: TemplateComparison, thinking: str) -> tuple[str, str] | None:
    """Both generation prompts in the mode asked for; `None` where one is not known."""
    found = [
        text
        for facts in (seen.target, seen.draft)
        if facts is not None
        for mode, text in facts.generation_prompts.items()
        if mode == thinking
    ]
    return (found[0], found[1]) if len(found) == 2 else None


def _one_sided(seen: TemplateComparison) -> list[str]:
    """Conversations that one template renders and the other does not, by name."""
    failed = {
        role: {(item.case, item.thinking) for item in seen.failures if item.role == role and item.case}
        for role in ("target", "draft")
    }
    if any(not item.case for item in seen.failures):
        return []  # one was given up as a whole: what it would have rendered is not known
    return sorted({name for name, _ in failed["target"] ^ failed["draft"]})


def _finding(
    seen: TemplateComparison, thinking: str, prompts: tuple[str, str] | None, one_sided: list[str]
) -> Finding:
    parts = []
    if prompts is not None:
        target, draft = (quoted(text) for text in prompts)
        parts.append(f"{_mode_words(thinking)}: the target's adds {target}, the drafter's {draft}")
    if seen.num_differing:
        cases = _some(list(seen.differing_cases))
        parts.append(f"{seen.num_differing} of {seen.num_cases} renderings differ ({cases})")
        parts.append(_first_words(_to_show(seen, thinking)))
    if one_sided:
        parts.append(f"only one of the two renders {_some(one_sided)}")
    what = "opens the answer in another way" if prompts else "renders conversations in another way"
    assert seen.draft is not None, "there were two to compare"
    return Finding(
        code="DF203",
        severity="error" if prompts else "warning",
        message=f"the drafter's chat template {what}",
        observed="; ".join(parts),
        expected="the same prompt as in the drafter's training",
        remedy="find out which template the drafter was trained with: engines render with the target's, so a "
        "drafter trained on its own sees prompts it does not know",
        where=Where(file=seen.draft.file, field=seen.draft.field),
        causes=("chat-template-mismatch",),
        numbers={"num_differing": seen.num_differing, "num_renderings": seen.num_cases},
    )


def _to_show(seen: TemplateComparison, thinking: str) -> TemplateDifference:
    """The first difference in the mode asked for, else the first."""
    in_mode = [item for item in seen.differences if item.thinking == thinking]
    return (in_mode or list(seen.differences))[0]


def _first_words(difference: TemplateDifference) -> str:
    words = (
        f"first in {difference.case}, {_mode_words(difference.thinking)}, at character "
        f"{difference.char_index}: target {quoted(difference.target_excerpt)}, "
        f"drafter {quoted(difference.draft_excerpt)}"
    )
    if difference.token_index is None:
        return words
    ids = ["the end" if one is None else f"id {one}" for one in (difference.target_id, difference.draft_id)]
    return f"{words} (token {difference.token_index}: {ids[0]} against {ids[1]})"


def _mode_words(thinking: Thinking | str) -> str:
    return _MODE_WORDS.get(thinking, f"thinking {thinking}")


def _some(names: list[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
