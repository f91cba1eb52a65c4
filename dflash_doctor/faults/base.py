"""What a fault is: a function that makes a private copy of a healthy pair faulty, in one seeded way.

One file per fault, with one function `inject(specimen)`; its name, where it acts and the causes that a
diagnosis may name for it stand in the catalog. A fault draws its size and place from `specimen.rng`, so that
another seed is another defect of the same kind, and writes into `specimen.detail` what it did. A control is
a fault that must not be named: something that looks odd and is healthy.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from dflash_doctor.engines.base import Shim

Place = Literal["config", "weights", "tokenizer", "template", "traffic", "settings", "engine", "counters"]
"""Where a defect sits: in the pair's files, in what is asked, in how it is served, in what is reported."""

Role = Literal["target", "draft"]


class NotApplicable(Exception):
    """This pair cannot have the fault; the message says why."""


@dataclass
class Specimen:
    """A private copy of a healthy pair; a fault edits it in place."""

    folder: Path
    """Holds `target/`, `draft/` and `prompts.jsonl`; nothing else shares it."""
    rng: random.Random
    """Seeded from fault, pair and seed: what a fault varies comes from here and nowhere else."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the run that differ from the defaults, by the names of `Settings`."""
    shims: list[Shim] = field(default_factory=list)
    """Defects put on the live engine, in this order."""
    detail: str = ""
    """What was done, with numbers: `target_layer_ids [1, 3, 4] -> [2, 4, 5]`."""

    def config(self, role: Role = "draft") -> dict[str, Any]:
        """config.json of one model."""
        value: dict[str, Any] = json.loads((self.folder / role / "config.json").read_text(encoding="utf-8"))
        return value

    def write_config(self, config: Mapping[str, Any], role: Role = "draft") -> None:
        """Replace config.json of one model."""
        text = json.dumps(config, indent=1, ensure_ascii=False) + "\n"
        (self.folder / role / "config.json").write_text(text, encoding="utf-8")

    def tensors(self, role: Role = "draft") -> dict[str, Any]:
        """The weights of one model, as torch tensors by name."""
        from safetensors.torch import load_file

        found: dict[str, Any] = load_file(self.folder / role / "model.safetensors")
        return found

    def write_tensors(self, tensors: Mapping[str, Any], role: Role = "draft") -> None:
        """Replace the weights of one model."""
        from safetensors.torch import save

        packed = save(
            {name: value.contiguous() for name, value in tensors.items()}, metadata={"format": "pt"}
        )
        (self.folder / role / "model.safetensors").write_bytes(packed)


class Injector(Protocol):
    """The one function of a fault's module."""

    def __call__(self, specimen: Specimen) -> None: ...
