"""Features of rejected tokens stay in the draft context."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Features, Uninstall, features_changed


def install(runner: Any, *, num_tokens: int) -> Uninstall:
    """Keep the first `num_tokens` rejected rows of a step where the next step should overwrite them."""
    stale: dict[str, Any] = {}

    def change(step: Features) -> Any:
        rows = step.rows.clone()
        left = stale.pop(step.request_id, None)
        if left is not None:
            count = min(len(left), len(rows))
            rows[:count] = left[:count]
        if step.num_valid < len(rows):
            stale[step.request_id] = step.rows[step.num_valid : step.num_valid + num_tokens]
        return rows

    return features_changed(runner, change)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """One token or up to the whole block."""
    return {"num_tokens": rng.randint(1, draft_config["block_size"] - 1)}
