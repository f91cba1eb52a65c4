"""XPress drafters: refine the block by Jacobi passes."""

from dflash_doctor.checkpoints.dialects.base import Dialect, has_architecture

XPRESS = Dialect(
    name="xpress",
    summary="Qwen3XPressModel",
    recognises=lambda config: has_architecture(config, "XPress") or "xpress_rank" in config,
    native="z-lab",
)
