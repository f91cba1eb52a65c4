"""The engines, one line each. Importing this loads none of them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dflash_doctor.engines.base import Engine, EngineOptions


@dataclass(frozen=True)
class EngineEntry:
    """An engine's name, where it lives, and what it is in one sentence."""

    name: str
    module: str
    """Has `open_engine(options) -> Engine`."""
    summary: str


ENGINES: tuple[EngineEntry, ...] = (
    EngineEntry(
        "vllm",
        "dflash_doctor.engines.vllm_offline",
        "the installed vLLM, GPU or CPU build, in a child process; token level",
    ),
    EngineEntry(
        "transformers",
        "dflash_doctor.engines.transformers_native",
        "Transformers' own DFlash generation, one request at a time; token level",
    ),
    EngineEntry(
        "replay",
        "dflash_doctor.engines.replay",
        "a recorded run, judged again; the level it was recorded at",
    ),
)


def engine_names() -> tuple[str, ...]:
    """Names in catalog order."""
    return tuple(entry.name for entry in ENGINES)


def open_engine(name: str, options: EngineOptions) -> Engine:
    """Start the engine called `name`.

    Raises:
        EngineMissingError: it is not installed; the message says what to install.
        EngineError: it did not start.
    """
    entry = next(entry for entry in ENGINES if entry.name == name)
    module = importlib.import_module(entry.module)
    engine: Engine = module.open_engine(options)
    return engine
