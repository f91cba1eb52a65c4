"""ModelOpt exports: causality and windows are written out in dflash_config."""

from dflash_doctor.checkpoints.dialects.base import (
    DFLASH_TENSORS,
    Config,
    Dialect,
    nested,
)


def _recognises(config: Config) -> bool:
    keys = nested(config)
    return "causal" in keys and "use_swa" in keys


MODELOPT = Dialect(
    name="modelopt",
    summary="dflash_config with explicit causal, use_swa and swa_window_size",
    recognises=_recognises,
    native="vllm",
    tensors=DFLASH_TENSORS,
)
"""The explicit keys are vLLM's."""
