"""The drafter's tokenizer cuts text differently from the target's

## What it checks

Both tokenizers are given texts of every kind (runs of spaces, digits, code, accents, other scripts, emoji,
special tokens inside user text), and texts generated for the purpose. A text on which they differ is shrunk
to the smallest one.

## Why it matters

Engines cut prompts with the target's tokenizer. A drafter whose copy cuts differently was trained on other
token sequences than it is served with: other digit groups, another normalisation of accents. Acceptance
falls on such text, and only there.

## Example

    DF202 the drafter's tokenizer cuts text differently
      observed: '12': target ['1', '2'], drafter ['12']

## What to do

Ask the release which tokenizer the drafter was trained with; train with the target's.
"""

from __future__ import annotations

import unicodedata

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.records import Finding, Where

_MAX_TOKENS = 8


def judge(case: Case) -> Outcome:
    """Judge the smallest text that differs."""
    contract = case.evidence.contract
    if contract is None or contract.tokenizers is None:
        return skipped("not checked: the tokenizers were not read")
    found = contract.tokenizers
    if found.draft is None:
        return skipped("not checked: the drafter brings no tokenizer")
    if found.classification is None:
        return skipped("not checked: a tokenizer could not be read")
    if found.behaviour_unchecked is not None:
        return skipped(f"not checked: a tokenizer could not be loaded: {found.behaviour_unchecked}")
    if found.num_texts is None:
        return settled([], compared=["both have the same rules, so they cut text alike"])
    difference = found.difference
    if difference is None:
        return settled([], compared=[f"{found.num_texts:,} texts are cut alike"])
    if found.classification == "conflicting":
        return settled([], compared=["texts differ, as the ids do (DF201)"])
    finding = Finding(
        code="DF202",
        severity="warning",
        message="the drafter's tokenizer cuts text differently",
        observed=f"{_spelled(difference.text)}: target {_some(difference.target_tokens)}, "
        f"drafter {_some(difference.draft_tokens)}",
        expected="the same tokens; engines cut with the target's tokenizer",
        remedy="ask the release which tokenizer the drafter was trained with",
        where=Where(file=found.draft.file),
        causes=("tokenizer-conflict",),
    )
    return settled([finding], compared=[])


def _some(tokens: tuple[str, ...]) -> str:
    """The first few tokens."""
    shown = list(tokens[:_MAX_TOKENS])
    return str(shown) if len(tokens) <= _MAX_TOKENS else f"{shown} and {len(tokens) - _MAX_TOKENS:,} more"


def _spelled(text: str) -> str:
    """The text in quotes; with characters that cannot be seen, or that join others, as escapes."""
    seen = all(unicodedata.category(character)[0] not in "MCZ" or character == " " for character in text)
    return repr(text) if seen else ascii(text)
