"""The block is drafted at other positions than its context says."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, block_changed


def install(runner: Any, *, offset: int) -> Uninstall:
    """Add `offset` to the rotary position of every token of the block; slots in the cache stay."""
    drafter = runner.drafter
    largest = drafter.max_model_len - 1

    def change(token_indices: Any) -> Any:
        drafter.positions.add_(offset).clamp_(0, largest)
        return token_indices

    return block_changed(runner, change)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """One to three positions, either way."""
    return {"offset": rng.choice((-3, -2, -1, 1, 2, 3))}
