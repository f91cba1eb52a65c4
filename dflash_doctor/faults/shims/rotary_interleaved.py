"""The drafter rotates neighbouring pairs where it was trained on halves."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, draft_layers
from dflash_doctor.faults.shims.rotary import rotary_changed


def install(runner: Any, *, context: bool) -> Uninstall:
    """Use the other layout.

    Args:
        runner: the model runner.
        context: also for the keys of the context; otherwise block and context disagree.
    """
    rotary = draft_layers(runner).layers[0].self_attn.rotary_emb
    return rotary_changed(runner, interleaved=rotary.is_neox_style, context=context)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """Everywhere or in the block alone."""
    return {"context": rng.random() < 0.5}
