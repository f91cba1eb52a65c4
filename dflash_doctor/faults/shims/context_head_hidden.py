"""The first tokens of each request never reach the draft context: a prefix restored without filling it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, context_erased


def install(runner: Any, *, num_tokens: int) -> Uninstall:
    """Zero the draft K/V of positions below `num_tokens`."""
    return context_erased(runner, lambda positions: positions < num_tokens)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """One or a few cache blocks of 16 tokens."""
    return {"num_tokens": 16 * rng.randint(1, 4)}
