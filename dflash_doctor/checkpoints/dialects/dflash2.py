"""z-lab's DFlash2: a grouped convolution in every layer and a candidate selector before the head."""

from dflash_doctor.checkpoints.dialects.base import (
    DFLASH_TENSORS,
    Config,
    Dialect,
    TensorNames,
    has_architecture,
    nested,
)

DFLASH2_TENSORS = TensorNames(
    required=(
        *DFLASH_TENSORS.required,
        "layers.{i}.attention_conv",
        "layers.{i}.mlp_conv",
        "candidate_selector",
    ),
    optional=DFLASH_TENSORS.optional,
)
"""Convolution and selector have several parts each; any part counts for the module."""


def _recognises(config: Config) -> bool:
    keys = nested(config)
    return has_architecture(config, "DFlash2") or "selector_rank" in keys or "conv_kernel_size" in keys


DFLASH2 = Dialect(
    name="dflash2",
    summary="DFlash2DraftModel: dflash_config with convolution and selector",
    recognises=_recognises,
    native="z-lab",
    tensors=DFLASH2_TENSORS,
)
