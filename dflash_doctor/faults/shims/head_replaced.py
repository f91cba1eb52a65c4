"""The drafter speaks through a head that is not the one it was trained with."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, replaced


def install(runner: Any, *, how: str, seed: int) -> Uninstall:
    """Give the drafter its own copy of the head with other rows.

    Args:
        runner: the model runner.
        how: `permuted` (rows in another order), `random` (same scale, no meaning) or `zero`.
        seed: of the order or of the values.
    """
    import torch

    draft = runner.drafter.model
    weight = draft.lm_head.weight.data
    generator = torch.Generator().manual_seed(seed)
    if how == "permuted":
        rows = weight[torch.randperm(len(weight), generator=generator).to(weight.device)]
    elif how == "random":
        noise = torch.randn(weight.shape, generator=generator).to(weight.device)
        rows = (noise * weight.float().std()).to(weight.dtype)
    elif how == "zero":
        rows = torch.zeros_like(weight)
    else:
        raise ValueError(f"how={how!r}: permuted, random or zero")
    head = copy.deepcopy(draft.lm_head)
    head.weight.data = rows.contiguous()
    # Engines pack weights at load: the copy must be packed anew, or it would still compute the old head.
    head.quant_method.process_weights_after_loading(head)
    return replaced(draft, "lm_head", head)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """Any of the three."""
    return {"how": rng.choice(("permuted", "random", "zero")), "seed": rng.randrange(1 << 16)}
