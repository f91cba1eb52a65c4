"""The drafter's context holds the features of earlier tokens."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Features, Uninstall, features_changed


def install(runner: Any, *, num_tokens: int) -> Uninstall:
    """Give the drafter, at each position, the target's features of `num_tokens` positions before."""
    import torch

    carried: dict[str, Any] = {}

    def change(step: Features) -> Any:
        before = carried.get(step.request_id)
        if before is None:
            before = step.rows[:1].expand(num_tokens, -1)
        delayed = torch.cat((before, step.rows))
        carried[step.request_id] = delayed[step.num_valid : step.num_valid + num_tokens].clone()
        return delayed[: len(step.rows)]

    return features_changed(runner, change)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """One or two tokens late."""
    return {"num_tokens": rng.randint(1, 2)}
