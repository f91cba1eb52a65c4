"""A few tokens of every stretch of context are missing: the edges of prefill chunks were not written."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, context_erased


def install(runner: Any, *, every: int, num_tokens: int) -> Uninstall:
    """Zero the draft K/V of the first `num_tokens` of every `every` positions."""
    return context_erased(runner, lambda positions: positions % every < num_tokens)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """A quarter to a half of every 8 or 16 tokens."""
    every = rng.choice((8, 16))
    return {"every": every, "num_tokens": rng.randint(every // 4, every // 2)}
