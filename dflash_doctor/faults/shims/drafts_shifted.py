"""Drafts are read one slot beside where the drafter predicts them: the anchor's part is misread."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, block_changed


def install(runner: Any, *, offset: int) -> Uninstall:
    """Sample each draft from the slot `offset` further on.

    Args:
        runner: the model runner.
        offset: -1 takes the anchor's slot for a prediction; past the last slot, the last is taken again.
    """

    def change(token_indices: Any) -> Any:
        num_slots = runner.drafter.num_speculative_tokens + 1
        first = token_indices // num_slots * num_slots
        slot = (token_indices - first + offset).clamp(0, num_slots - 1)
        return first + slot

    return block_changed(runner, change)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """One slot either way."""
    return {"offset": rng.choice((-1, 1))}
