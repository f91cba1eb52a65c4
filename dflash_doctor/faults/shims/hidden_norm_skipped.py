"""The target's features enter the drafter's layers without their norm."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, draft_layers, replaced


def install(runner: Any, *, factor: float) -> Uninstall:
    """Project `factor` times the raw features to context K/V.

    Args:
        runner: the model runner.
        factor: 1 leaves the norm out; others also miss the scale.
    """
    import torch

    model = draft_layers(runner)

    def project(states: Any, num_tokens: int, num_layers: int, num_heads: int, head_dim: int) -> Any:
        flat = torch.nn.functional.linear(states * factor, model._fused_kv_weight, model._fused_kv_bias)
        both = flat.view(num_tokens, num_layers, 2, num_heads, head_dim)
        keys, values = both.permute(2, 1, 0, 3, 4).contiguous()
        return keys, values

    return replaced(model, "_project_context_kv", project)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """The norm alone, or the scale with it."""
    return {"factor": rng.choice((0.25, 1.0, 4.0))}
