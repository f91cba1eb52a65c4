"""The drafter reads other target layers than it was trained on."""

from __future__ import annotations

from typing import Any

from dflash_doctor.faults.base import NotApplicable, Specimen


def shifted(specimen: Specimen) -> None:
    """All taps moved by the same number of layers."""
    taps, layers = _taps(specimen), specimen.config("target")["num_hidden_layers"]
    offsets = [item for item in (-1, 1, 2) if min(taps) + item >= 0 and max(taps) + item < layers]
    offset = specimen.rng.choice(offsets)
    _write(specimen, [tap + offset for tap in taps])


def one_moved(specimen: Specimen) -> None:
    """One tap moved by two layers or three; one layer alone costs less than can be told from chance."""
    taps, layers = _taps(specimen), specimen.config("target")["num_hidden_layers"]
    places = [
        (index, tap + offset)
        for index, tap in enumerate(taps)
        for offset in (-3, -2, 2, 3)
        if 0 <= tap + offset < layers and tap + offset not in taps
    ]
    index, moved = specimen.rng.choice(places)
    _write(specimen, sorted([*taps[:index], moved, *taps[index + 1 :]]))


def blocks_permuted(specimen: Specimen) -> None:
    """The blocks of `fc` in another order than the taps."""
    import torch

    taps, tensors = _taps(specimen), specimen.tensors()
    if len(taps) < 2:
        raise NotApplicable("one tap has one order")
    order = list(range(len(taps)))
    while order == sorted(order):
        specimen.rng.shuffle(order)
    blocks = tensors["fc.weight"].chunk(len(taps), dim=1)
    tensors["fc.weight"] = torch.cat([blocks[index] for index in order], dim=1)
    specimen.write_tensors(tensors)
    specimen.detail = f"blocks of fc in the order {order}"


def out_of_range(specimen: Specimen) -> None:
    """The last tap past the target's last layer."""
    taps, layers = _taps(specimen), specimen.config("target")["num_hidden_layers"]
    _write(specimen, [*taps[:-1], layers + specimen.rng.randrange(3)])


def _taps(specimen: Specimen) -> list[int]:
    return list(specimen.config()["dflash_config"]["target_layer_ids"])


def _write(specimen: Specimen, taps: list[int]) -> None:
    config: dict[str, Any] = specimen.config()
    before = config["dflash_config"]["target_layer_ids"]
    config["dflash_config"]["target_layer_ids"] = taps
    specimen.write_config(config)
    specimen.detail = f"target_layer_ids {before} -> {taps}"
