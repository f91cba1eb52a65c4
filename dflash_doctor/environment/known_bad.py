"""The table of versions that are known to go wrong with something (`known_bad.toml`)."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from dflash_doctor.contract.known_bad import KnownBadRow

TABLE = Path(__file__).resolve().parent / "known_bad.toml"


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    row: tuple[KnownBadRow, ...]


@functools.cache
def known_bad_rows() -> tuple[KnownBadRow, ...]:
    """Every row, in file order."""
    return msgspec.convert(tomllib.loads(TABLE.read_text(encoding="utf-8")), _Table).row


def matching_rows(versions: Mapping[str, str]) -> tuple[tuple[KnownBadRow, ...], int]:
    """Rows whose range holds the version that is there, and how many rows are about what is there.

    Args:
        versions: package -> version, of what is installed or serves.
    """
    matched, num_asked = [], 0
    for row in known_bad_rows():
        there = next((name for name in row.packages if name in versions), None)
        if there is None:
            continue
        num_asked += 1
        if in_range(versions[there], row.versions):
            matched.append(msgspec.structs.replace(row, installed=f"{there} {versions[there]}"))
    return tuple(matched), num_asked


def in_range(version: str, specifier: str) -> bool:
    """Whether a version lies in a range; pre-releases count, build tags do not, garbage lies nowhere."""
    try:
        parsed = Version(version)
    except InvalidVersion:
        return False
    return SpecifierSet(specifier).contains(parsed.public, prereleases=True)
