"""The drafter's token embeddings have another scale than in training."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, draft_layers, replaced


def install(runner: Any, *, factor: float) -> Uninstall:
    """Multiply what the drafter embeds by `factor`; the target's embedding stays."""
    model = draft_layers(runner)
    original = model.embed_input_ids
    return replaced(model, "embed_input_ids", lambda input_ids: original(input_ids) * factor)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """About the square root of the hidden size, applied where it should not be.

    Upwards only: the first norm hides a scale that was lost from a drafter trained without one.
    """
    return {"factor": round(math.sqrt(draft_config["hidden_size"]) * rng.choice((0.75, 1.0, 2.0)), 3)}
