"""DSpark drafters: a Markov head, and every slot of the block predicts, the anchor's too."""

from dflash_doctor.checkpoints.dialects.base import (
    DFLASH_TENSORS,
    Config,
    Dialect,
    TensorNames,
    has_architecture,
    nested_first,
)

DSPARK_TENSORS = TensorNames(
    required=DFLASH_TENSORS.required,
    optional=(*DFLASH_TENSORS.optional, "markov_head", "confidence_head", "mtp"),
)


def _recognises(config: Config) -> bool:
    return has_architecture(config, "DSpark") or "markov_rank" in config


DSPARK = Dialect(
    name="dspark",
    summary="Qwen3DSparkModel and relatives: markov_rank, drafts block_size tokens",
    recognises=_recognises,
    native="dspark",
    fields={
        "target_layer_ids": ("dspark_target_layer_ids", "target_layer_ids"),
        "block_size": ("block_size", "dspark_block_size", "dflash_config.block_size"),
        "mask_token_id": (*nested_first("mask_token_id"), "dspark_noise_token_id", "pard_token"),
    },
    tensors=DSPARK_TENSORS,
)
