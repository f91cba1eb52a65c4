"""What the loaded Transformers models really are, as engine facts."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from typing import Any

from dflash_doctor.engines.transformers_drafter import LoadedDrafter
from dflash_doctor.evidence import EngineFacts


def engine_facts(
    target: Any, drafter: LoadedDrafter | None, *, name: str, end_ids: Sequence[int], unused: Sequence[str]
) -> EngineFacts:
    """Facts read from the live models.

    Args:
        target: the target model.
        drafter: the drafter; `None` in the target-only arm.
        name: the engine's.
        end_ids: tokens that end a text.
        unused: tensors of the target's checkpoint that the model has no place for.
    """
    import torch

    text = target.config.get_text_config()
    dtype = str(target.dtype).removeprefix("torch.")
    live: dict[str, Any] = {
        "target_class": type(target).__name__,
        "torch": importlib.metadata.version("torch"),
        "num_threads": torch.get_num_threads(),
        "end_token_ids": list(end_ids),
        "num_target_parameters": sum(parameter.numel() for parameter in target.parameters()),
        "unused_target_tensors": list(unused),
    }
    facts: dict[str, Any] = {}
    if drafter is not None:
        config = drafter.model.config
        live |= {
            "draft_layer_types": list(config.layer_types),
            "draft_rope_parameters": dict(config.rope_parameters),
            "num_draft_parameters": sum(parameter.numel() for parameter in drafter.model.parameters()),
            "differs_from_draft_config": list(drafter.differences),
        }
        taps = tuple(int(index) for index in config.target_layer_ids)
        facts = {
            "method": "dflash",
            "draft_attention": (str(config._attn_implementation),),
            "num_spec_tokens": drafter.num_spec_tokens,
            "block_size": drafter.block_size,
            "mask_token_id": config.mask_token_id,
            "target_layer_ids": taps,
            # Transformers numbers them like the config: it asks each layer for its output.
            "aux_hidden_state_layers": taps,
            "draft_class": type(drafter.model).__name__,
            "lm_head_shared": True,
            "embedding_shared": True,
            "draft_layers_causal": (False,) * config.num_hidden_layers,
            "rejection_sample_method": "speculative sampling",
        }
    return EngineFacts(
        name=name,
        version=importlib.metadata.version("transformers"),
        device=str(target.device),
        dtype=dtype,
        kv_cache_dtype=dtype,
        runner=f"{type(target).__module__}.{type(target).__name__}",
        async_scheduling=False,
        enforce_eager=True,
        prefix_caching=False,
        max_model_len=getattr(text, "max_position_embeddings", None),
        max_num_seqs=1,
        target_attention=(str(target.config._attn_implementation),),
        num_target_layers=text.num_hidden_layers,
        live=live,
        **facts,
    )
