"""LiLiCorr drafters: a corrector over the block's candidates."""

from dflash_doctor.checkpoints.dialects.base import Dialect, has_architecture

LILICORR = Dialect(
    name="lilicorr",
    summary="LiLiCorrDraftModel",
    recognises=lambda config: has_architecture(config, "LiLiCorr"),
    native="z-lab",
)
