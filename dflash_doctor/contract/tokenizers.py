"""What the tokenizers of target and drafter say of each other."""

from __future__ import annotations

from typing import Literal

import msgspec


class TokenizerComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Filled by `checkpoints.tokenizer_parity`."""


class TokenFact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tokenizer says of one id."""

    id: int
    text: str
    kind: Literal["ordinary", "added", "special", "absent"]
    roles: tuple[str, ...] = ()
    """bos, eos, pad, unk, mask"""
