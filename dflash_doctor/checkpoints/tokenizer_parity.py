"""Compares the tokenizers of target and drafter by what they do, not by their sizes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from dflash_doctor.checkpoints.token_text import shortened
from dflash_doctor.checkpoints.tokenizer_behaviour import compare_behaviour
from dflash_doctor.checkpoints.tokenizer_file import TokenizerFile, read_tokenizer
from dflash_doctor.checkpoints.tokenizer_json import ParsedTokenizer, merges_of
from dflash_doctor.contract.tokenizers import (
    Classification,
    FlagDifference,
    SettingDifference,
    TokenConflict,
    TokenizerComparison,
    TokenizerFacts,
)

_MAX_LISTED = 10
"""Examples kept of each kind of difference; the numbers count all."""

MAX_EXAMPLES = 300
"""Generated texts tried."""


def compare_tokenizers(
    target_folder: Path,
    draft_folder: Path | None,
    *,
    target_rows: int | None = None,
    draft_rows: int | None = None,
    max_examples: int = MAX_EXAMPLES,
    seed: int = 0,
) -> TokenizerComparison:
    """How the two tokenizers relate; never raises, whatever the files hold.

    Args:
        target_folder: the target's checkpoint folder.
        draft_folder: the drafter's; `None` where the method has no drafter or it is not here.
        target_rows: rows of the target's embedding, where known; else its config's `vocab_size`.
        draft_rows: the same of the drafter.
        max_examples: generated texts to tokenise with both, where something differs that could matter.
        seed: of those texts.
    """
    target = read_tokenizer(target_folder, num_rows=target_rows)
    if draft_folder is None:
        return TokenizerComparison(target=target.facts, unchecked="there is no drafter folder")
    draft = read_tokenizer(draft_folder, num_rows=draft_rows, like=target)
    return compare_files(target, draft, max_examples=max_examples, seed=seed)


def compare_files(
    target: TokenizerFile, draft: TokenizerFile, *, max_examples: int = MAX_EXAMPLES, seed: int = 0
) -> TokenizerComparison:
    """The same for tokenizers that were read already."""
    unchecked = _unchecked("target", target.facts) or _unchecked("drafter", draft.facts)
    if target.parsed is None or draft.parsed is None or target.facts is None or draft.facts is None:
        return TokenizerComparison(target=target.facts, draft=draft.facts, unchecked=unchecked)
    settings = _setting_differences(target, draft)
    if _is_same_file(target, draft):
        return TokenizerComparison(
            target=target.facts,
            draft=draft.facts,
            classification=_without_conflict(target.facts, draft.facts, num_one_sided=0),
            same_file=True,
            setting_differences=settings,
        )
    conflicts = _conflicts(target, draft)
    one_sided = sorted(target.tokens.keys() ^ draft.tokens.keys())
    flags = _flag_differences(target, draft)
    sections = _section_differences(target.parsed, draft.parsed)
    classification: Classification = (
        "conflicting"
        if conflicts
        else _without_conflict(target.facts, draft.facts, num_one_sided=len(one_sided))
    )
    could_differ = bool(one_sided or flags or sections or _splits(target) != _splits(draft))
    behaviour = None
    if could_differ and not conflicts:
        behaviour = compare_behaviour(target, draft, max_examples=max_examples, seed=seed)
    return TokenizerComparison(
        target=target.facts,
        draft=draft.facts,
        classification=classification,
        num_conflicting=len(conflicts),
        conflicts=_shown(target, draft, conflicts),
        num_target_only=len(target.tokens.keys() - draft.tokens.keys()),
        num_draft_only=len(draft.tokens.keys() - target.tokens.keys()),
        one_sided=_shown(target, draft, one_sided),
        num_flag_differences=len(flags),
        flag_differences=tuple(flags[:_MAX_LISTED]),
        setting_differences=settings,
        section_differences=sections,
        behaviour=behaviour,
    )


def _unchecked(side: str, facts: TokenizerFacts | None) -> str:
    if facts is None:
        return f"the {side} has no tokenizer files"
    return f"the {side}'s tokenizer, {facts.file}: {facts.problem}" if facts.problem else ""


def _is_same_file(target: TokenizerFile, draft: TokenizerFile) -> bool:
    """The same bytes, and the files beside them add the same tokens: nothing is left to compare."""
    assert target.facts is not None, "read"
    assert draft.facts is not None, "read"
    return (
        target.facts.sha256 == draft.facts.sha256
        and target.late == draft.late
        and _splits(target) == _splits(draft)
    )


def _without_conflict(target: TokenizerFacts, draft: TokenizerFacts, *, num_one_sided: int) -> Classification:
    if num_one_sided:
        return "suffix-added"
    if target.num_rows is None or draft.num_rows is None or target.num_rows == draft.num_rows:
        return "identical"
    is_unused = min(target.num_rows, draft.num_rows) > (target.last_id or 0)
    return "padding-only" if is_unused else "identical"


def _conflicts(target: TokenizerFile, draft: TokenizerFile) -> list[int]:
    """Ids that stand for different text, and ids of texts that the other has elsewhere; ascending."""
    ours, theirs = target.tokens, draft.tokens
    differing = [
        number
        for number, raw in ours.items()
        # Written alike is alike only where both write bytes alike; unlike may still be the same text.
        if (other := theirs.get(number)) is not None
        and (raw != other or (number in target.added) != (number in draft.added))
        and target.literal(number) != draft.literal(number)
    ]
    if target.parsed and draft.parsed and target.parsed.alphabet != draft.parsed.alphabet:
        differing += [
            number
            for number in ours.keys() & theirs.keys()
            if ours[number] == theirs[number] and target.literal(number) != draft.literal(number)
        ]
    found = set(differing)
    for one, another in ((target, draft), (draft, target)):
        alone = one.tokens.keys() - another.tokens.keys()
        if alone:
            known = set(another.tokens.values())
            found |= {number for number in alone if one.tokens[number] in known}
    return sorted(found)


def _shown(target: TokenizerFile, draft: TokenizerFile, ids: list[int]) -> tuple[TokenConflict, ...]:
    return tuple(
        TokenConflict(id=number, target_text=target.shown(number), draft_text=draft.shown(number))
        for number in islice(ids, _MAX_LISTED)
    )


def _flag_differences(target: TokenizerFile, draft: TokenizerFile) -> list[FlagDifference]:
    """Tokens that both have and that are matched in text, or skipped, differently."""
    found = []
    for number in sorted(target.added.keys() | draft.added.keys()):
        ours, theirs = target.added.get(number), draft.added.get(number)
        if number not in target.tokens or number not in draft.tokens:
            continue
        target_flags = None if ours is None else ours.flags
        draft_flags = None if theirs is None else theirs.flags
        if target_flags != draft_flags:
            text = target.shown(number) or ""
            found.append(
                FlagDifference(id=number, text=text, target_flags=target_flags, draft_flags=draft_flags)
            )
    return found


def _section_differences(target: ParsedTokenizer, draft: ParsedTokenizer) -> tuple[str, ...]:
    found = [name for name, content in target.sections.items() if draft.sections[name] != content]
    if "model" not in found and not _is_same_model(target, draft):
        found.append("model")
    return tuple(found)


def _is_same_model(target: ParsedTokenizer, draft: ParsedTokenizer) -> bool:
    if target.kind != draft.kind or target.scores != draft.scores:
        return False
    if target.merges == draft.merges:
        return True
    ours = merges_of(target.merges)
    return bool(ours) and ours == merges_of(draft.merges)


def _splits(side: TokenizerFile) -> bool:
    return side.settings is not None and side.settings.splits_special_tokens


def _setting_differences(target: TokenizerFile, draft: TokenizerFile) -> tuple[SettingDifference, ...]:
    """Roles and switches that both name: what only one names is no contradiction."""
    if target.settings is None or draft.settings is None:
        return ()
    ours = {f"{role}_token": text for role, text in target.settings.roles.items()} | target.settings.switches
    theirs = {f"{role}_token": text for role, text in draft.settings.roles.items()} | draft.settings.switches
    return tuple(
        SettingDifference(key=key, target=shortened(value), draft=shortened(theirs[key]))
        for key, value in ours.items()
        if key in theirs and theirs[key] != value
    )
