"""Finds `checks/` and `fixtures/`: beside the package in a checkout, inside this folder in a wheel."""

from __future__ import annotations

from pathlib import Path

from dflash_doctor.errors import DoctorError

_HERE = Path(__file__).resolve().parent
_CHECKOUT = _HERE.parent.parent


def bundled_checks() -> Path:
    """The folder of pytest modules that `pytest --dflash` collects."""
    return _find("checks")


def bundled_fixtures() -> Path:
    """The folder of data files: the tiny pair, prompts."""
    return _find("fixtures")


def _find(name: str) -> Path:
    for place in (_HERE / name, _CHECKOUT / name):
        if place.is_dir():
            return place
    raise DoctorError(
        f"the bundled {name} are missing",
        seen=f"neither {_HERE / name} nor {_CHECKOUT / name}",
        remedy="install dflash-doctor again",
    )
