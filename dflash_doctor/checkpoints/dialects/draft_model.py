"""A plain small language model used as drafter: no taps, no block."""

from dflash_doctor.checkpoints.dialects.base import Dialect

DRAFT_MODEL = Dialect(
    name="draft-model",
    summary="any causal language model",
    recognises=lambda config: True,
    native="draft-model",
)
