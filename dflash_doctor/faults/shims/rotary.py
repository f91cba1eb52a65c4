"""Swaps the drafter's rotary embedding for a changed copy, in its layers and in the writing of context."""

from __future__ import annotations

import copy
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, draft_layers, in_reverse, replaced


def rotary_changed(
    runner: Any,
    *,
    base: float | None = None,
    interleaved: bool | None = None,
    fraction: float = 1.0,
    context: bool = True,
) -> Uninstall:
    """Change the rotary embedding of every drafter layer.

    A copy, because vLLM lends target and draft the same module where their parameters agree.

    Args:
        runner: the model runner.
        base: another theta.
        interleaved: pairs of neighbours (True) or of halves (False).
        fraction: share of each head that is rotated.
        context: also for the keys of the context; otherwise only for the block.
    """
    model = draft_layers(runner)
    rotary = copy.deepcopy(model.layers[0].self_attn.rotary_emb)
    if base is not None:
        rotary.base = base
    if interleaved is not None:
        rotary.is_neox_style = not interleaved
    rotary.rotary_dim = 2 * round(rotary.rotary_dim * fraction / 2)
    old = rotary.cos_sin_cache
    rotary.cos_sin_cache = rotary._compute_cos_sin_cache().to(dtype=old.dtype, device=old.device)
    steps = [replaced(layer.self_attn, "rotary_emb", rotary) for layer in model.layers]
    if context:
        steps.append(replaced(model, "_rope_cos_sin_cache", rotary.cos_sin_cache))
        steps.append(replaced(model, "_rope_is_neox", rotary.is_neox_style))
    return in_reverse(*steps)
