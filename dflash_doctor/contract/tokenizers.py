"""What the tokenizers of target and drafter say of each other."""

from __future__ import annotations

import msgspec


class TokenizerComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Filled by `checkpoints.tokenizer_parity`."""
