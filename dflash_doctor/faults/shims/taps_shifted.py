"""The target hands out the hidden states of neighbouring layers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, replaced


def install(runner: Any, *, offset: int) -> Uninstall:
    """Move every tap of the live target by `offset` layers.

    Raises:
        ValueError: a tap would leave the target.
    """
    model = runner.get_model().model
    moved = tuple(layer + offset for layer in model.aux_hidden_state_layers)
    if min(moved) < 0 or max(moved) > len(model.layers):
        raise ValueError(f"taps {moved} of a target with {len(model.layers)} layers")
    return replaced(model, "aux_hidden_state_layers", moved)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """One layer up or down, as far as the target goes."""
    taps = draft_config["dflash_config"]["target_layer_ids"]
    last = draft_config["num_target_layers"] - 1
    return {"offset": rng.choice([by for by in (-1, 1) if min(taps) + by >= 0 and max(taps) + by <= last])}
