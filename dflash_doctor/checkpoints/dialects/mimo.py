"""MiMo's drafters: windows by `use_swa`, attention sinks, the mask embedding in a file of its own."""

from dflash_doctor.checkpoints.dialects.base import (
    DFLASH_TENSORS,
    Config,
    Dialect,
    TensorNames,
    nested,
)

_MARKS = ("attention_sink_bias", "attention_value_scale")


def _recognises(config: Config) -> bool:
    return any(name in nested(config) for name in _MARKS)


MIMO = Dialect(
    name="mimo",
    summary="dflash_config with use_swa, attention_sink_bias and a side file mask_embedding.pt",
    recognises=_recognises,
    native="vllm",
    tensors=TensorNames(required=DFLASH_TENSORS.required, optional=DFLASH_TENSORS.optional),
    needs_mask_embedding=True,
)
"""Trained without layer types of its own: `use_swa` makes every layer slide, as vLLM reads it."""
