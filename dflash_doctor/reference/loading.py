"""Loads a drafter's tensors, and says of each whether it was there, made up, or left aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from dflash_doctor.errors import UsageError
from dflash_doctor.reference.config import DrafterConfig, read_drafter_config
from dflash_doctor.reference.dflash import Drafter
from dflash_doctor.reference.dflash2 import drafter_of

_EMBEDDING = ("embed_tokens.weight",)
_HEAD = ("lm_head.weight",)
_MAPS = ("d2t", "t2d")
_PREFIX = "model."


@dataclass(frozen=True, kw_only=True)
class DrafterFiles:
    """A drafter as its files hold it."""

    drafter: Drafter
    embedding: Tensor | None = None
    """[vocabulary, hidden] of its own; `None`: it uses the target's."""
    head: Tensor | None = None
    """[draft vocabulary, hidden] of its own; `None`: it uses the target's."""
    vocab_map: Tensor | None = None
    """[draft vocabulary]: target id = draft id + entry (EAGLE's convention)."""
    missing: tuple[str, ...] = ()
    """Tensors that the file lacks: norms stand at one and projections at zero."""
    ignored: tuple[str, ...] = ()
    """Tensors of the file that this drafter has no place for."""


def load_drafter(folder: str | Path, *, dtype: torch.dtype = torch.float32) -> Drafter:
    """The drafter of a z-lab checkpoint folder, in evaluation mode, every tensor accounted for.

    Raises:
        UsageError: the config cannot be used, there are no weights, or a tensor is missing, left over or
            misshapen (each is named).
    """
    place = Path(folder)
    files = load_drafter_files(place, read_drafter_config(place), dtype=dtype)
    misfits = [f"{name} is missing" for name in files.missing]
    misfits += [f"{name} is unknown" for name in files.ignored]
    if misfits:
        raise _unfit(place, misfits)
    return files.drafter


def load_drafter_files(
    folder: str | Path, config: DrafterConfig, *, dtype: torch.dtype = torch.float32
) -> DrafterFiles:
    """The drafter of a checkpoint folder under a config, in evaluation mode; gaps are filled and named.

    Raises:
        UsageError: there are no weights, they cannot be read, a tensor has another shape than the config
            asks for (each is named), or the config of a DFlash2 drafter lacks a size.
    """
    place = Path(folder)
    tensors = _read(place)
    drafter = drafter_of(config)
    wanted = drafter.state_dict()
    misshapen = [
        f"{name} is {list(tensors[name].shape)}, the config says {list(wanted[name].shape)}"
        for name in wanted
        if name in tensors and tensors[name].shape != wanted[name].shape
    ]
    if misshapen:
        raise _unfit(place, misshapen)
    missing = tuple(name for name in wanted if name not in tensors)
    state = {name: tensors[name] if name in tensors else _unset(name, wanted[name]) for name in wanted}
    drafter.load_state_dict(state)
    special = {*_EMBEDDING, *_HEAD, *_MAPS}
    return DrafterFiles(
        drafter=drafter.to(dtype).eval().requires_grad_(False),
        embedding=_first(tensors, _EMBEDDING, dtype),
        head=_first(tensors, _HEAD, dtype),
        vocab_map=tensors["d2t"].long() if "d2t" in tensors else None,
        missing=missing,
        ignored=tuple(sorted(name for name in tensors if name not in wanted and name not in special)),
    )


def _unset(name: str, like: Tensor) -> Tensor:
    """What stands where a loader puts nothing: norms start at one; nothing else can be known."""
    return torch.ones_like(like) if "norm" in name else torch.zeros_like(like)


def _first(tensors: Mapping[str, Tensor], names: tuple[str, ...], dtype: torch.dtype) -> Tensor | None:
    return next((tensors[name].to(dtype) for name in names if name in tensors), None)


def _read(place: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    files = sorted(place.glob("*.safetensors"))
    if not files:
        raise _unfit(place, ["no *.safetensors file"])
    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            tensors.update(load_file(file))
        except (OSError, SafetensorError) as error:
            raise UsageError(
                "the drafter's weights cannot be read", seen=f"{file}: {error}", remedy="copy the file again"
            ) from error
    return {name.removeprefix(_PREFIX): value for name, value in tensors.items()}


def _unfit(place: Path, misfits: list[str]) -> UsageError:
    return UsageError(
        "the drafter's tensors do not fit its config",
        seen=f"{place}: {'; '.join(misfits)}",
        remedy="compare config.json (layers, heads, taps) with the file, or copy the checkpoint again",
    )
