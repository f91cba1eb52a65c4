"""Every now and then a step drafts nothing but token 0."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, drafts_changed


def install(runner: Any, *, every: int, num_steps: int) -> Uninstall:
    """Zero the drafts of `num_steps` steps in a row out of each `every`."""
    steps = itertools.count()

    def change(drafts: Any, call: Mapping[str, Any]) -> Any:
        return drafts * 0 if next(steps) % every >= every - num_steps else drafts

    return drafts_changed(runner, change)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """Bursts of a quarter to a half of the time."""
    every = rng.randint(8, 16)
    return {"every": every, "num_steps": rng.randint(every // 4, every // 2)}
