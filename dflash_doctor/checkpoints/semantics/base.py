"""The questions on which readers of a drafter differ, and the answers a line of the table can give.

A *reader* is an engine, or the code a family was trained with. The table (`table.py`) is data; `read.py`
applies a line to a drafter's config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

TapsAbsent = Literal["guess", "target-defaults", "refuse", "none"]
"""Without a tap list: spread them over the target by z-lab's rule, take the target class's EAGLE-3 defaults,
do not start, or need none."""

CausalRule = Literal[
    "is_causal", "dflash_config.causal", "class-default", "speculators-all", "speculators-sliding",
    "layer-types", "never",
]  # fmt: skip
"""How causality inside the block is settled; of several the first that has an answer counts.

`is_causal`, `dflash_config.causal`: the key decides for all layers.
`class-default`: the config class of Muse-Glimmer's assistant makes every layer non-causal.
`speculators-all`: `not sliding_window_non_causal` for all layers (absent: non-causal), unless DSpark.
`speculators-sliding`: sliding layers causal unless `sliding_window_non_causal` (absent counts as false, for
DFlash2 as true), full ones never.
`layer-types`: sliding layers causal, full ones not. `never`: no layer.
"""

AnchorRule = Literal["never", "stated", "default-true"]
"""Whether the anchor slot predicts: never, as the file says (else not), as the file says (else it does)."""


@dataclass(frozen=True)
class TapField:
    """A tap list by its field of the normal form, and what must be added to its numbers to get output ids."""

    field: str
    shift: int = 0


@dataclass(frozen=True, kw_only=True)
class Semantics:
    """How one reader takes a drafter's config."""

    reader: str
    versions: str
    """Releases in which this was read or run."""
    is_engine: bool = True
    taps: tuple[TapField, ...] = ()
    """Places in the order in which they are tried."""
    taps_absent: TapsAbsent
    refuses_dialects: Mapping[str, str] = field(default_factory=dict)
    """Dialect -> why it does not start with it."""
    blind_dialects: frozenset[str] = frozenset()
    """Dialects of which it reads only the top level: lists and nested fields of theirs do not count."""
    width_argument: str
    width_counts_anchor: bool
    causal: tuple[CausalRule, ...]
    anchor: Mapping[str, AnchorRule]
    """By dialect; `*` for all others."""
    refuses_nested_anchor: bool = False
    """Does not start where `dflash_config.sample_from_anchor` is true and the method is dflash; of files by
    speculators it puts the key there itself."""
    use_swa: bool = False
    """Reads `use_swa` and `swa_window_size`."""
    theta_absent: float | None
    """Base of the rotary frequencies where the file names none."""
    theta_absent_of: Mapping[str, float] = field(default_factory=dict)
    """The same by dialect, where it differs."""
    partial_factor: Literal["applied", "ignored"]
    layout_keys: tuple[str, ...]
    """Rotary layout: fields in the order in which they are tried; halves (neox) without any."""
    layout_absent: bool = True
    mixed_layers_need: str | None = None
    """What must be set for drafters that mix sliding and full layers."""
    stretches_positions: bool = False
    """Raises the drafter's `max_position_embeddings` to the served length."""
