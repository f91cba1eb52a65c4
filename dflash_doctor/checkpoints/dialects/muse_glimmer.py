"""Muse-Glimmer's assistant: flat config, `fc` and `hidden_norm` under `encoder`."""

from dflash_doctor.checkpoints.dialects.base import (
    DFLASH_TENSORS,
    QWEN3_LAYER,
    Config,
    Dialect,
    TensorNames,
    has_architecture,
)


def _recognises(config: Config) -> bool:
    return (
        has_architecture(config, "MuseGlimmerAssistant")
        or config.get("model_type") == "muse_glimmer_assistant"
    )


MUSE_GLIMMER = Dialect(
    name="muse-glimmer",
    summary="MuseGlimmerAssistantModel: Transformers' own DFlash drafter class",
    recognises=_recognises,
    native="transformers",
    tensors=TensorNames(
        required=(*QWEN3_LAYER, "encoder.fc", "encoder.output_norm_enc", "norm"),
        optional=DFLASH_TENSORS.optional,
    ),
)
