"""Verification keeps draft tokens that the target would not have chosen."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, Verified, verification_changed


def install(runner: Any, *, num_tokens: int, rate: float, seed: int) -> Uninstall:
    """Keep up to `num_tokens` drafts from the first rejected one on, at a share of the rejections.

    Args:
        runner: the model runner.
        num_tokens: drafts kept beyond the accepted ones.
        rate: share of rejections, 0-1.
        seed: decides which.
    """
    rng = random.Random(seed)

    def change(verified: Verified) -> list[int]:
        num_accepted = len(verified.kept) - 1
        if num_accepted == len(verified.drafts) or rng.random() >= rate:
            return verified.kept
        num_kept = min(num_accepted + num_tokens, len(verified.drafts))
        return [*verified.drafts[:num_kept], verified.choices[num_kept]]

    return verification_changed(runner, change)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """Always or often, one to three tokens."""
    return {
        "num_tokens": rng.randint(1, 3),
        "rate": rng.choice((0.25, 0.5, 1.0)),
        "seed": rng.randrange(1 << 16),
    }
