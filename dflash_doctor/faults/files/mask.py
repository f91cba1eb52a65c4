"""Slots of the block are filled with another token than in training."""

from __future__ import annotations

from dflash_doctor.faults.base import Specimen


def special(specimen: Specimen) -> None:
    """Another added token: end of text, padding, start of a turn."""
    own = specimen.config()["dflash_config"]["mask_token_id"]
    _write(specimen, specimen.rng.choice([item for item in range(6) if item != own]))


def ordinary(specimen: Specimen) -> None:
    """An ordinary token of the vocabulary."""
    _write(specimen, specimen.rng.randrange(40, specimen.config("target")["vocab_size"] // 2))


def last_row(specimen: Specimen) -> None:
    """The last row of the embedding, as a converter without a mask token takes it."""
    _write(specimen, specimen.config("target")["vocab_size"] - 1)


def _write(specimen: Specimen, mask: int) -> None:
    config = specimen.config()
    before = config["dflash_config"]["mask_token_id"]
    config["dflash_config"]["mask_token_id"] = mask
    specimen.write_config(config)
    specimen.detail = f"mask_token_id {before} -> {mask}"
