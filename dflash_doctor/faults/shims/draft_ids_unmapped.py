"""Draft ids are not mapped back to the target's vocabulary: above some id they come out lower."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, drafts_changed


def install(runner: Any, *, first_id: int, by: int) -> Uninstall:
    """Lower draft ids from `first_id` on by `by`: the ids left out of the draft vocabulary below them."""

    def change(drafts: Any, call: Mapping[str, Any]) -> Any:
        return drafts - (drafts >= first_id) * by

    return drafts_changed(runner, change)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """From somewhere in the lower half of the vocabulary."""
    first = rng.randint(draft_config["vocab_size"] // 8, draft_config["vocab_size"] // 2)
    return {"first_id": first, "by": rng.randint(1, first // 2)}
