"""The block's empty slots hold another token than the trained mask."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, replaced


def install(runner: Any, *, token_id: int) -> Uninstall:
    """Fill the block with `token_id`."""
    return replaced(runner.drafter, "parallel_drafting_token_id", token_id)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """The end of text, the padding token, or any other."""
    trained = draft_config["dflash_config"]["mask_token_id"]
    named = [draft_config.get(key) for key in ("eos_token_id", "pad_token_id")]
    candidates = [*named, rng.randrange(draft_config["vocab_size"])]
    ids = [token for token in candidates if isinstance(token, int) and token != trained]
    return {"token_id": rng.choice(ids or [trained - 1])}
