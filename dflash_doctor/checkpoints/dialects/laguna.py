"""Laguna's drafters: per-head gates, fused projections, a norm per tapped layer."""

from dflash_doctor.checkpoints.dialects.base import (
    DFLASH_TENSORS,
    Config,
    Dialect,
    TensorNames,
    has_architecture,
    nested,
    nested_first,
)


def _recognises(config: Config) -> bool:
    return (
        has_architecture(config, "Laguna")
        or config.get("model_type") == "laguna"
        or "decoder_layer_type" in nested(config)
    )


LAGUNA = Dialect(
    name="laguna",
    summary="DFlashLagunaForCausalLM: everything in dflash_config, gates and aux norms",
    recognises=_recognises,
    native="z-lab",
    fields={"num_target_layers": nested_first("num_target_layers")},
    tensors=TensorNames(
        required=(*DFLASH_TENSORS.required, "layers.{i}.self_attn.g_proj", "aux_hidden_norms"),
        optional=DFLASH_TENSORS.optional,
    ),
)
