"""z-lab's own DFlash checkpoints: no embedding, no head; older ones have `block_size` at top level."""

from dflash_doctor.checkpoints.dialects.base import (
    DFLASH_TENSORS,
    Config,
    Dialect,
    TensorNames,
    architectures,
    nested,
)


def _recognises(config: Config) -> bool:
    return "DFlashDraftModel" in architectures(config) or bool(nested(config))


ZLAB = Dialect(
    name="z-lab",
    summary="DFlashDraftModel with dflash_config",
    recognises=_recognises,
    native="z-lab",
    # Those of DFlash2 have a check of their own, which says more than "unknown".
    tensors=TensorNames(
        required=DFLASH_TENSORS.required,
        optional=(
            *DFLASH_TENSORS.optional,
            "layers.{i}.attention_conv",
            "layers.{i}.mlp_conv",
            "candidate_selector",
        ),
    ),
)
