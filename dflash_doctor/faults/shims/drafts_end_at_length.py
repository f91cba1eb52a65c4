"""Past a length nothing but token 0 is drafted."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, drafts_changed


def install(runner: Any, *, num_tokens: int, whole_batch: bool) -> Uninstall:
    """Zero the drafts of requests whose block would end past `num_tokens`.

    Args:
        runner: the model runner.
        num_tokens: prompt and output together.
        whole_batch: one long request stops drafting for all, as in vLLM's own gate.
    """

    def change(drafts: Any, call: Mapping[str, Any]) -> Any:
        lengths = call["common_attn_metadata"].seq_lens[: len(drafts)]
        rejected = call.get("num_rejected_tokens_gpu")
        if rejected is not None:
            lengths = lengths - rejected
        too_long = lengths + 1 + drafts.shape[1] > num_tokens
        if whole_batch:
            too_long = too_long.any().expand(len(drafts))
        return drafts.masked_fill(too_long.unsqueeze(1), 0)

    return drafts_changed(runner, change)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """A length that most answers to the bundled prompts (20 to 111 tokens, half of them below 40) pass.

    Higher for a whole batch, which the longest prompt would otherwise silence from the start.
    """
    if rng.random() < 0.5:
        return {"num_tokens": rng.randint(56, 80), "whole_batch": False}
    return {"num_tokens": rng.randint(80, 128), "whole_batch": True}
