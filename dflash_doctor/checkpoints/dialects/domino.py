"""Domino drafters: a recurrent projector behind the block."""

from dflash_doctor.checkpoints.dialects.base import Config, Dialect, nested


def _recognises(config: Config) -> bool:
    return "domino" in (nested(config).get("projector_type"), config.get("projector_type"))


DOMINO = Dialect(
    name="domino",
    summary="dflash_config.projector_type domino; SGLang only",
    recognises=_recognises,
    native="sglang",
)
