"""Target and drafter map ids to different tokens

## What it checks

The tokenizer files of both, by content and not by size: for every id the text that it stands for. Ids that
one side lacks, or tables that differ by unused rows, are told and do no harm.

## Why it matters

A drafter speaks in ids. Where an id means one thing to it and another to the target, what it drafts is
noise at these places: a few swapped ids cost a little, another tokenizer costs everything. Engines compare
sizes at best, which refuses good pairs (151,936 and 152,064 are the same Qwen vocabulary) and lets bad ones
through (ggml-org/llama.cpp#3812, vllm-project/vllm#10913).

## Example

    DF201 target and drafter map ids to different tokens
      observed: 2 ids, first 4711: ' the' in the target, ' of' in the drafter

## What to do

Take a drafter made for this tokenizer; restore the tokenizer files from the original release.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.contract.tokenizers import TokenizerComparison, TokenizerFacts
from dflash_doctor.records import Finding, Where


def judge(case: Case) -> Outcome:
    """Judge the comparison of the two files."""
    contract = case.evidence.contract
    if contract is None or contract.tokenizers is None:
        return skipped("not checked: the tokenizers were not read")
    found = contract.tokenizers
    if found.target.problem is not None:
        if found.target.is_absent:
            return skipped("not checked: the target brings no tokenizer file")
        return settled([_unreadable(found.target, "target")], compared=[])
    if found.draft is None:
        return skipped("not checked: the drafter brings no tokenizer")
    if found.draft.problem is not None:
        return settled([_unreadable(found.draft, "drafter")], compared=[], unchecked=["the ids"])
    if found.classification == "conflicting":
        return settled([_conflict(found)], compared=[])
    return settled(_notes(found), compared=[_words(found)])


def _words(found: TokenizerComparison) -> str:
    ids = f"{found.target.num_ids:,} ids"
    if found.classification == "padding-only":
        return f"{ids} stand for the same tokens; the tables differ by unused rows"
    if found.classification == "suffix-added":
        extra = [
            f"{count:,} further in the {side}"
            for count, side in ((found.num_only_in_target, "target"), (found.num_only_in_draft, "drafter"))
            if count
        ]
        return f"every id that both have stands for the same token; {', '.join(extra)}"
    return f"{ids} stand for the same tokens"


def _conflict(found: TokenizerComparison) -> Finding:
    shown = "; ".join(
        f"{item.id}: {item.target_text!r} in the target, {item.draft_text!r} in the drafter"
        for item in found.conflicts[:3]
    )
    ids = "1 id" if found.num_conflicts == 1 else f"{found.num_conflicts:,} ids"
    return Finding(
        code="DF201",
        severity="error",
        message="target and drafter map ids to different tokens",
        observed=f"{ids}, first {shown}",
        expected="the same token for every id that both have",
        remedy="take a drafter made for this tokenizer, or restore the tokenizer files of the release",
        where=Where(file=found.draft.file if found.draft is not None else None),
        causes=("tokenizer-conflict", "wrong-drafter-for-target"),
        numbers={"num_conflicts": found.num_conflicts},
    )


def _unreadable(facts: TokenizerFacts, role: str) -> Finding:
    """Engines use the target's file: without it they do not start. The drafter's is evidence only."""
    return Finding(
        code="DF201",
        severity="error" if role == "target" else "warning",
        message=f"the {role}'s tokenizer cannot be read",
        observed=facts.problem or "",
        expected="a tokenizer.json",
        remedy="restore the file from the original release"
        + ("" if role == "target" else ", or remove it: engines use the target's"),
        where=Where(file=facts.file),
        causes=("tokenizer-conflict",),
    )


def _notes(found: TokenizerComparison) -> list[Finding]:
    if not found.flag_differences:
        return []
    return [
        Finding(
            code="DF201",
            severity="info",
            message="added tokens carry different flags",
            observed="; ".join(found.flag_differences[:3]),
            expected="the same flags",
            remedy="nothing while texts are cut alike (DF202)",
            where=Where(file=found.draft.file if found.draft is not None else None, field="added_tokens"),
        )
    ]
