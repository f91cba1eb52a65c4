"""After a rejection the target's token is read from another row of its logits."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, Verified, verification_changed


def install(runner: Any, *, offset: int, num_accepted: int) -> Uninstall:
    """Take the token that follows the accepted drafts from `offset` rows further on.

    Args:
        runner: the model runner.
        offset: rows; past the request's last row, its first ones follow.
        num_accepted: only where at least so many drafts were accepted and not all.
    """

    def change(verified: Verified) -> list[int]:
        count = len(verified.kept) - 1
        if count < num_accepted or count == len(verified.drafts):
            return verified.kept
        return [*verified.kept[:-1], verified.choices[(count + offset) % len(verified.choices)]]

    return verification_changed(runner, change)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """The next row or the one before, at any rejection or after two accepted drafts."""
    return {"offset": rng.choice((-1, 1)), "num_accepted": rng.choice((0, 1, 2))}
