"""Collects what files, packages and settings say of a pair. No engine, no torch, no network."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from dflash_doctor.checkpoints.pair import read_pair
from dflash_doctor.contract.evidence import ContractEvidence
from dflash_doctor.contract.pair import PairContract
from dflash_doctor.environment.snapshot import engine_variables
from dflash_doctor.settings import Settings

_PartT = TypeVar("_PartT")


def collect_contract(
    settings: Settings,
    engine_args: Mapping[str, Any],
    *,
    pair: PairContract | None = None,
    environ: Mapping[str, str] | None = None,
) -> ContractEvidence:
    """Everything that can be known before an engine starts; a part that fails leaves the others.

    Args:
        settings: the settings in force, with a target.
        engine_args: engine arguments as parsed.
        pair: what the files say, where somebody has read them.
        environ: the environment; the process's own by default.
    """
    failures: dict[str, str] = {}

    def part(name: str, collect: Callable[[], _PartT]) -> _PartT | None:
        try:
            return collect()
        except Exception as error:
            failures[name] = f"{type(error).__name__}: {error}"
            return None

    if pair is None:
        pair = part(
            "checkpoints", lambda: read_pair(settings.target or "", settings.draft, engine_args=engine_args)
        )
    return ContractEvidence(
        served_by=settings.reader,
        engine_args=dict(engine_args),
        variables=engine_variables(os.environ if environ is None else environ),
        method=settings.method,
        thinking=settings.thinking,
        pair=pair,
        not_collected=failures,
    )
