"""What one experiment changes about the drafter: every knob that a cause touches, absent where left alone."""

from __future__ import annotations

from typing import Literal

import msgspec

Whose = Literal["configured", "target", "own"]
VocabMapUse = Literal["configured", "none", "matched"]


class Knobs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Changes to a drafter as its files describe it. The default changes nothing.

    The upper part says how the drafter is meant (an intervention turns one of these back); the lower part are
    defects of engines, put in to see whether they reproduce what an engine drafts.
    """

    taps: tuple[int, ...] | None = None
    """Read the outputs of these target layers, in this order; -1 is what enters layer 0."""
    mask_token_id: int | None = None
    rope_theta: float | None = None
    partial_rotary_factor: float | None = None
    neox: bool | None = None
    causal: bool | None = None
    """For every layer."""
    window: int | None = None
    """For every layer; 0 takes the window away."""
    samples_from_anchor: bool | None = None
    embedding: Whose = "configured"
    embedding_scale: float | None = None
    head: Whose = "configured"
    vocab_map: VocabMapUse = "configured"
    """`none` reads draft ids as target ids; `matched` finds each head row's likest in the target's head."""
    layer_order: tuple[int, ...] | None = None
    """Run the drafter's layers in this order."""
    dtype: str | None = None
    num_draft_tokens: int | None = None
    """Slots are added or left out at the end of the block."""

    unset_tensors: tuple[str, ...] = ()
    """As if never loaded: norms at one, projections at zero."""
    zeroed_tensors: tuple[str, ...] = ()
    features_scaled: float | None = None
    """Features enter the layers times this, without their norm."""
    slot_offset: int = 0
    """Drafts are read so many slots beside their own; past an end the last is taken again."""
    erased_first: int = 0
    """First so many tokens whose keys and values are zero, as an unwritten cache holds them."""
    erased_of_every: tuple[int, int] | None = None
    """(n, m): keys and values of the first n of every m tokens are zero."""
    query_shift: int = 0
    context_end: int = 0
    context_lag: int = 0
    context_key_norm_of: int | None = None
    context_shuffled: bool = False
    """Rows of the context in random order: drafts that do not mind do not use the context."""
    max_length: int | None = None
    """Once a text and its block pass this length, every draft token is 0."""

    def changes(self) -> dict[str, object]:
        """What differs from the default, by name, as plain JSON values."""
        changed: dict[str, object] = msgspec.to_builtins(self)
        return changed
