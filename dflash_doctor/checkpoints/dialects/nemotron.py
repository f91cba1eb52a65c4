"""Nemotron's drafters: an embedding of their own, both tap lists, NVFP4 weights."""

from dflash_doctor.checkpoints.dialects.base import (
    DFLASH_TENSORS,
    Config,
    Dialect,
    TensorNames,
)


def _recognises(config: Config) -> bool:
    return bool(config.get("has_embed_tokens")) and "eagle_aux_hidden_state_layer_ids" in config


NEMOTRON = Dialect(
    name="nemotron",
    summary="DFlashDraftModel with has_embed_tokens and eagle_aux_hidden_state_layer_ids",
    recognises=_recognises,
    native="vllm",
    tensors=TensorNames(
        required=(*DFLASH_TENSORS.required, "embed_tokens"),
        optional=(*DFLASH_TENSORS.optional, "layers.{i}.self_attn.k_scale", "layers.{i}.self_attn.v_scale"),
    ),
)
