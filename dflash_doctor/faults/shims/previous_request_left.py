"""The draft context of a request begins with what another request left there."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Features, Uninstall, features_changed


def install(runner: Any, *, num_tokens: int) -> Uninstall:
    """Give the first `num_tokens` positions of a request the features of the request started before it."""
    previous: list[Any] = []

    def change(step: Features) -> Any:
        if step.position != 0:
            return step.rows
        rows = step.rows.clone()
        if previous:
            left = previous.pop()
            count = min(len(left), len(rows))
            rows[:count] = left[:count]
        previous.append(step.rows[:num_tokens])
        return rows

    return features_changed(runner, change)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """Two to four cache blocks of 16 tokens: prompts of one template begin alike."""
    return {"num_tokens": 16 * rng.randint(2, 4)}
