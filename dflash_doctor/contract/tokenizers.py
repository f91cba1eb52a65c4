"""What the tokenizers of target and drafter say of each other."""

from __future__ import annotations

from typing import Literal

import msgspec

TokenKind = Literal["ordinary", "added", "special", "absent"]
"""`ordinary`: an entry of the vocabulary, which text can produce. `added`: matched whole in text, kept when
special tokens are skipped. `special`: the same, and dropped then. `absent`: no token has the id."""

Classification = Literal["identical", "padding-only", "suffix-added", "conflicting"]
"""What two id -> token maps are to each other; only `conflicting` breaks a pair.

`identical`: every id stands for the same text. `padding-only`: the same, and the embeddings differ in unused
rows past the last id. `suffix-added`: ids that both have stand for the same text, and there are ids that only
one has, normally past the other's last. `conflicting`: an id stands for different texts, or a text that both
have is on different ids.
"""


class TokenFact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one id stands for."""

    id: int
    text: str | None
    """As a reader would see it; bytes that are no whole character as `\\xe2`. `None` for an absent id."""
    kind: TokenKind
    roles: tuple[str, ...] = ()
    """`bos`, `eos`, `pad`, `unk`, `mask`, `sep`, `cls`, where the checkpoint names this token so."""


class SpecialToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The token that a checkpoint names for a role."""

    role: str
    text: str
    id: int | None
    """`None`: no token of the tokenizer has this text."""


class TokenizerFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One side's tokenizer in a few numbers."""

    file: str
    """Path of tokenizer.json, or of what was found in its place."""
    problem: str | None = None
    """Why it cannot be compared; then everything below is empty."""
    is_other_format: bool = False
    """It may serve well: it is only not one that is compared here."""
    kind: str | None = None
    """Of the model: `BPE`, `Unigram`, `WordPiece`, `WordLevel`."""
    num_ids: int | None = None
    last_id: int | None = None
    sha256: str | None = None
    num_added: int = 0
    """Added tokens that are not special."""
    num_special: int = 0
    special_tokens: tuple[SpecialToken, ...] = ()
    num_rows: int | None = None
    """Rows of the embedding: the config's `vocab_size`, where the tensor was not asked."""
    notes: tuple[str, ...] = ()
    """Oddities of the files that do not keep the tokenizer from being compared."""


class TokenConflict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An id on which the two disagree; `None` where a side has no such id."""

    id: int
    target_text: str | None
    draft_text: str | None


class FlagDifference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An added token of both that is matched or skipped differently."""

    id: int
    text: str
    target_flags: tuple[str, ...] | None
    """Flags that are on: `special`, `normalized`, `lstrip`, `rstrip`, `single_word`; `None`: not added
    here, but an ordinary entry of the vocabulary."""
    draft_flags: tuple[str, ...] | None


class SettingDifference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key that both name in tokenizer_config.json or special_tokens_map.json, with different values."""

    key: str
    target: str
    draft: str


class TokenizationDifference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A text that the two turn into different ids (both sequences cut at 64)."""

    text: str
    target_ids: tuple[int, ...]
    draft_ids: tuple[int, ...]
    target_tokens: tuple[str, ...]
    draft_tokens: tuple[str, ...]
    one_sided_token: str | None = None
    """The added token in the text that only one side has, which explains the difference."""
    with_special_tokens: bool = False
    """The texts agree; what differs is what is put around them (a BOS, an EOS)."""


class BehaviourComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Texts tokenised by both."""

    num_texts: int = 0
    difference: TokenizationDifference | None = None
    """The smallest text found; `None`: all tokenised alike."""
    unchecked: str = ""
    """Why the texts were not, or not all, tried."""


class TokenizerComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The two tokenizers side by side. Filled by `checkpoints.tokenizer_parity`."""

    target: TokenizerFacts | None = None
    """`None`: there is no tokenizer file."""
    draft: TokenizerFacts | None = None
    classification: Classification | None = None
    """Of the id -> token maps; `None`: not compared, `unchecked` says why."""
    unchecked: str = ""
    same_file: bool = False
    """tokenizer.json is the same byte for byte, and nothing else that matters differs."""
    num_conflicting: int = 0
    conflicts: tuple[TokenConflict, ...] = ()
    """The first of them by id."""
    num_target_only: int = 0
    num_draft_only: int = 0
    one_sided: tuple[TokenConflict, ...] = ()
    """The first ids that only one side has."""
    num_flag_differences: int = 0
    flag_differences: tuple[FlagDifference, ...] = ()
    setting_differences: tuple[SettingDifference, ...] = ()
    section_differences: tuple[str, ...] = ()
    """Sections of tokenizer.json that differ: `normalizer`, `pre_tokenizer`, `post_processor`, `decoder`, and
    `model` (its kind, merges, scores and options)."""
    behaviour: BehaviourComparison | None = None
    """`None`: no text was tried, because nothing that could change one differs or the ids conflict anyway."""
