"""Rotary embedding of the drafter otherwise than in training."""

from __future__ import annotations

from dflash_doctor.faults.base import NotApplicable, Specimen

_BASES = (1e3, 3e3, 1e5, 5e5, 1e6, 5e6)


def base_changed(specimen: Specimen) -> None:
    """Another base, in both places."""
    own = specimen.config()["rope_theta"]
    _write_base(specimen, specimen.rng.choice([item for item in _BASES if item != own]))


def base_near(specimen: Specimen) -> None:
    """A base near the trained one: a mild loss."""
    _write_base(specimen, specimen.config()["rope_theta"] * specimen.rng.choice((0.5, 2.0)))


def base_lost(specimen: Specimen) -> None:
    """No base anywhere: engines take 10000."""
    config = specimen.config()
    if config["rope_theta"] == 1e4:
        raise NotApplicable("it was trained with the base that engines fall back to")
    del config["rope_theta"]
    config["rope_parameters"].pop("rope_theta")
    specimen.write_config(config)
    specimen.detail = "rope_theta removed"


def interleaved(specimen: Specimen) -> None:
    """Neighbouring pairs are rotated instead of halves."""
    config = specimen.config()
    config["is_neox_style"] = config["rope_is_neox_style"] = False
    specimen.write_config(config)
    specimen.detail = "is_neox_style -> false"


def partial(specimen: Specimen) -> None:
    """A part of each head, copied from a target of another family."""
    config = specimen.config()
    part = specimen.rng.choice((0.25, 0.5, 0.75))
    config["partial_rotary_factor"] = config["rope_parameters"]["partial_rotary_factor"] = part
    specimen.write_config(config)
    specimen.detail = f"partial_rotary_factor -> {part}"


def _write_base(specimen: Specimen, base: float) -> None:
    config = specimen.config()
    before = config["rope_theta"]
    config["rope_theta"] = config["rope_parameters"]["rope_theta"] = base
    specimen.write_config(config)
    specimen.detail = f"rope_theta {before:g} -> {base:g}"
