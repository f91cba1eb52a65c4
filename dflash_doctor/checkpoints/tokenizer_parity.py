"""Compares the tokenizers of target and drafter by content: ids, added tokens, and what they do to text."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dflash_doctor.checkpoints.files import shown
from dflash_doctor.checkpoints.tokenizer_child import TokenizerFailedError, compare_on_text
from dflash_doctor.checkpoints.tokenizer_file import TokenizerFile, read_tokenizer
from dflash_doctor.contract.tokenizers import (
    TokenConflict,
    TokenizationDifference,
    TokenizerClass,
    TokenizerComparison,
    TokenizerFacts,
)

_MAX_SHOWN = 10
_MAX_EXAMPLES = 1000


def compare_tokenizers(
    target: Path | TokenizerFile,
    draft: Path | None,
    *,
    target_vocab_size: int | None = None,
    draft_vocab_size: int | None = None,
    max_examples: int = _MAX_EXAMPLES,
) -> TokenizerComparison:
    """What the two say of each other; nothing raises.

    Args:
        target: the target's folder, or its tokenizer where somebody has read it.
        draft: the drafter's folder; `None` where it is not on this machine.
        target_vocab_size: rows of the target's table by its config.
        draft_vocab_size: the same of the drafter.
        max_examples: generated texts, at most.
    """
    ours = target if isinstance(target, TokenizerFile) else read_tokenizer(target)
    theirs = read_tokenizer(draft, like=ours) if draft is not None else None
    if ours is None:
        missing = TokenizerFacts(
            file=shown(str(target), 4096), problem="there is no tokenizer file", is_absent=True
        )
        return TokenizerComparison(target=missing, draft=theirs.facts() if theirs is not None else None)
    if theirs is None or ours.problem is not None or theirs.problem is not None:
        return TokenizerComparison(target=ours.facts(), draft=theirs.facts() if theirs is not None else None)
    # The same file, read once: nothing to look through.
    conflicts: list[int] = []
    only_target: set[int] = set()
    only_draft: set[int] = set()
    if theirs.texts is not ours.texts:
        conflicts = sorted(
            token_id for token_id, text in ours.texts.items() if theirs.texts.get(token_id, text) != text
        )
        only_target = ours.texts.keys() - theirs.texts.keys()
        only_draft = theirs.texts.keys() - ours.texts.keys()
    sizes_differ = None not in (target_vocab_size, draft_vocab_size) and target_vocab_size != draft_vocab_size
    comparison = TokenizerComparison(
        target=ours.facts(),
        draft=theirs.facts(),
        classification=_classify(bool(conflicts), bool(only_target or only_draft), sizes_differ),
        num_conflicts=len(conflicts),
        conflicts=tuple(
            TokenConflict(token_id, ours.readable(token_id), theirs.readable(token_id))
            for token_id in conflicts[:_MAX_SHOWN]
        ),
        num_only_in_target=len(only_target),
        num_only_in_draft=len(only_draft),
        flag_differences=_flags(ours, theirs),
    )
    if not conflicts and not only_target and not only_draft and not _rules_differ(ours, theirs):
        return comparison
    return _with_behaviour(comparison, ours, theirs, max_examples)


def _classify(conflicting: bool, extra: bool, sizes_differ: bool) -> TokenizerClass:
    if conflicting:
        return "conflicting"
    if extra:
        return "suffix-added"
    return "padding-only" if sizes_differ else "identical"


def _rules_differ(ours: TokenizerFile, theirs: TokenizerFile) -> bool:
    return ours.rules != theirs.rules or ours.added != theirs.added


def _flags(ours: TokenizerFile, theirs: TokenizerFile) -> tuple[str, ...]:
    """Added tokens of the same id and text whose flags differ, or that are added on one side only."""
    found = []
    for token_id in sorted(ours.added.keys() | theirs.added.keys()):
        mine, other = ours.added.get(token_id), theirs.added.get(token_id)
        if mine is not None and other is not None:
            if mine.text == other.text and mine.flags != other.flags:
                found.append(f"{shown(mine.text)} ({token_id}): {_words(mine.flags)} / {_words(other.flags)}")
        elif token_id in ours.texts and token_id in theirs.texts:
            side = "target" if mine is not None else "drafter"
            found.append(f"{shown(ours.texts[token_id])} ({token_id}): an added token of the {side} only")
    return tuple(found[:_MAX_SHOWN])


def _words(flags: tuple[bool, ...]) -> str:
    names = ("special", "single word", "strips left", "strips right", "normalised")
    return ", ".join(name for name, flag in zip(names, flags, strict=True) if flag) or "plain"


def _with_behaviour(
    comparison: TokenizerComparison, ours: TokenizerFile, theirs: TokenizerFile, max_examples: int
) -> TokenizerComparison:
    specials = sorted({item.text for item in (*ours.added.values(), *theirs.added.values())})
    try:
        tried, found = compare_on_text(ours.path, theirs.path, specials=specials, max_examples=max_examples)
    except TokenizerFailedError as error:
        return msgspec.structs.replace(comparison, behaviour_unchecked=str(error))
    difference = msgspec.convert(found, TokenizationDifference | None)
    return msgspec.structs.replace(comparison, num_texts=tried, difference=difference)
