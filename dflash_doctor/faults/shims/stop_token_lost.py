"""A stop token inside a block is lost, and the text runs on."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, Verified, verification_changed


def install(runner: Any, *, token_id: int, num_accepted: int) -> Uninstall:
    """Replace the stop token by the target's second choice.

    Args:
        runner: the model runner.
        token_id: the stop token.
        num_accepted: only behind at least so many accepted drafts of the same block.
    """

    def change(verified: Verified) -> list[int]:
        kept = list(verified.kept)
        for index in range(num_accepted, min(len(kept), len(verified.drafts))):
            if kept[index] == token_id:
                kept[index] = verified.runners_up[index]
        return kept

    return verification_changed(runner, change)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """The config's end of text, anywhere in a block or not at its start."""
    stop = draft_config["eos_token_id"]
    return {"token_id": stop[0] if isinstance(stop, list) else stop, "num_accepted": rng.randint(0, 1)}
