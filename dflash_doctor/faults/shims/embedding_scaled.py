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
    """The square root of the hidden size, applied where it should not be, or lost."""
    scale = math.sqrt(draft_config["hidden_size"])
    return {"factor": rng.choice((scale, 1 / scale))}
