"""What the tokenizers of target and drafter say of each other."""

from __future__ import annotations

from typing import Literal

import msgspec

TokenizerClass = Literal["identical", "padding-only", "suffix-added", "conflicting"]
"""`padding-only`: the same tokens, and tables that differ by rows nobody uses. `suffix-added`: one side has
further ids that the other lacks. `conflicting`: some id stands for different text; only this one is fatal."""


class TokenFact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tokenizer says of one id."""

    id: int
    text: str
    """As a reader would write it: byte-level spellings undone."""
    kind: Literal["ordinary", "added", "special", "absent"]
    roles: tuple[str, ...] = ()
    """bos, eos, pad, unk, mask"""


class TokenizerFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tokenizer file."""

    file: str
    problem: str | None = None
    """Why it was not read; `None` where it was."""
    is_absent: bool = False
    """There is no file at all, of this format or another."""
    kind: str | None = None
    """BPE, Unigram, WordPiece, WordLevel."""
    num_ids: int = 0
    highest_id: int | None = None
    num_added: int = 0
    num_special: int = 0
    sha256: str | None = None


class TokenConflict(msgspec.Struct, frozen=True):
    """An id that stands for different text."""

    id: int
    target_text: str
    draft_text: str


class TokenizationDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest text found that the two cut into different tokens."""

    text: str
    target_tokens: tuple[str, ...]
    draft_tokens: tuple[str, ...]
    target_ids: tuple[int, ...]
    draft_ids: tuple[int, ...]


class TokenizerComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Both tokenizers, by content."""

    target: TokenizerFacts
    draft: TokenizerFacts | None = None
    """`None`: the drafter brings no tokenizer."""
    classification: TokenizerClass | None = None
    """`None` where one side could not be read."""
    num_conflicts: int = 0
    conflicts: tuple[TokenConflict, ...] = ()
    """The first few, by id."""
    num_only_in_target: int = 0
    num_only_in_draft: int = 0
    flag_differences: tuple[str, ...] = ()
    """Added tokens that are special on one side, or strip or normalise differently."""
    num_texts: int | None = None
    """Texts that both were given; `None`: the rules are the same, so none was needed."""
    difference: TokenizationDifference | None = None
    behaviour_unchecked: str | None = None
    """Why the two were not tried on text."""
