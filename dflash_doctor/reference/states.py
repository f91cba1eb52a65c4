"""Keeps the target's layer outputs along many texts: in memory up to a limit, then in a temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor


class StateStore:
    """Layer outputs by text number."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held: dict[int, dict[int, Tensor]] = {}
        self._held_bytes = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._spilled: dict[int, Path] = {}

    def put(self, number: int, states: Mapping[int, Tensor]) -> None:
        """Keep the outputs [L, hidden] of some layers along one text."""
        here = {layer: value.detach().cpu() for layer, value in states.items()}
        size = sum(value.numel() * value.element_size() for value in here.values())
        if self._held_bytes + size <= self._limit:
            self._held[number] = here
            self._held_bytes += size
            return
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="dflash-states-")
        path = Path(self._folder.name) / f"{number}.pt"
        torch.save(here, path)
        self._spilled[number] = path

    def get(self, number: int, layers: tuple[int, ...], device: torch.device) -> dict[int, Tensor]:
        """The outputs of these layers along one text, on a device."""
        states = self._held.get(number)
        if states is None:
            states = torch.load(self._spilled[number], mmap=True, weights_only=True)
        return {layer: states[layer].to(device) for layer in dict.fromkeys(layers)}

    @property
    def num_spilled(self) -> int:
        """Texts whose states lie on disk."""
        return len(self._spilled)

    def close(self) -> None:
        """Forget everything and remove the folder."""
        self._held.clear()
        self._spilled.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
