"""The dialects, in the order in which they are tried: the particular before the general."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dflash_doctor.checkpoints.dialects.base import Dialect
from dflash_doctor.checkpoints.dialects.dflash2 import DFLASH2
from dflash_doctor.checkpoints.dialects.domino import DOMINO
from dflash_doctor.checkpoints.dialects.draft_model import DRAFT_MODEL
from dflash_doctor.checkpoints.dialects.dspark import DSPARK
from dflash_doctor.checkpoints.dialects.eagle3 import EAGLE3
from dflash_doctor.checkpoints.dialects.gguf import GGUF
from dflash_doctor.checkpoints.dialects.laguna import LAGUNA
from dflash_doctor.checkpoints.dialects.lilicorr import LILICORR
from dflash_doctor.checkpoints.dialects.mimo import MIMO
from dflash_doctor.checkpoints.dialects.modelopt import MODELOPT
from dflash_doctor.checkpoints.dialects.muse_glimmer import MUSE_GLIMMER
from dflash_doctor.checkpoints.dialects.nemotron import NEMOTRON
from dflash_doctor.checkpoints.dialects.speculators import (
    SPECULATORS,
    SPECULATORS_DFLASH2,
    SPECULATORS_DSPARK,
    SPECULATORS_EAGLE3,
)
from dflash_doctor.checkpoints.dialects.xpress import XPRESS
from dflash_doctor.checkpoints.dialects.zlab import ZLAB

DIALECTS: tuple[Dialect, ...] = (
    GGUF,
    SPECULATORS_DFLASH2,
    SPECULATORS_DSPARK,
    SPECULATORS_EAGLE3,
    SPECULATORS,
    MUSE_GLIMMER,
    LAGUNA,
    NEMOTRON,
    MIMO,
    DOMINO,
    LILICORR,
    XPRESS,
    DSPARK,
    DFLASH2,
    MODELOPT,
    ZLAB,
    EAGLE3,
    DRAFT_MODEL,
)


def dialect_of(config: Mapping[str, Any]) -> Dialect:
    """The family that wrote this config; the last line takes whatever no other knows."""
    return next(dialect for dialect in DIALECTS if dialect.recognises(config))


def dialect_called(name: str) -> Dialect:
    """The dialect with this name, one of the catalog."""
    return next(dialect for dialect in DIALECTS if dialect.name == name)
