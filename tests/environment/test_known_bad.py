"""Every row of the table is well formed, fires on its own version and features alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from dflash_doctor.contract.features import BY_NAME, FEATURES, misfits
from dflash_doctor.contract.known_bad import KnownBadRow, condition_misfits, holds
from dflash_doctor.diagnosis.catalog import causes
from dflash_doctor.environment.installed import PACKAGES
from dflash_doctor.environment.known_bad import in_range, known_bad_rows, matching_rows

ROWS = known_bad_rows()
CANDIDATES = [
    *(f"0.{minor}.{patch}" for minor in range(15, 40) for patch in (0, 1, 2)),
    *(f"0.5.{patch}" for patch in range(30)),
    *("0.21.0rc1", "0.8.0", "0.9.0", "0.9.1", "0.23.1rc1.dev861", "1.0"),
]
"""Versions to try: of vLLM, SGLang and the others that rows name."""


def inside(row: KnownBadRow) -> str:
    return next(version for version in CANDIDATES if in_range(version, row.versions))


def outside(row: KnownBadRow) -> str | None:
    return next((version for version in CANDIDATES if not in_range(version, row.versions)), None)


def wanted(condition: Any, name: str) -> Any:
    """A value of the feature that meets the condition."""
    if isinstance(condition, list | tuple):
        return condition[0]
    kind = BY_NAME[name].type
    if isinstance(condition, str) and kind in (int, float):
        return kind(re.sub(r"[^\d.]", "", condition)) + 1
    return condition


def opposite(condition: Any, name: str) -> Any:
    """A value of the feature that does not."""
    kind = BY_NAME[name].type
    if kind is bool:
        return not condition
    return kind(0) if kind in (int, float) else "something else"


def features_of(row: KnownBadRow) -> dict[str, Any]:
    return {name: wanted(condition, name) for name, condition in row.when.items()}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_row_when_read_then_is_well_formed(row: KnownBadRow) -> None:
    assert re.fullmatch(r"[a-z0-9-]+", row.id)
    assert set(row.packages) <= set(PACKAGES)
    SpecifierSet(row.versions)
    assert condition_misfits(row.when) == ()
    known = causes()
    assert row.causes
    assert set(row.causes) <= set(known)
    assert row.failure_modes
    assert all(re.fullmatch(r"[A-Z]\d{1,2}", mode) for mode in row.failure_modes)
    explained = {mode for name in row.causes for mode in known[name].failure_modes}
    assert explained & set(row.failure_modes), "its cause explains its failure mode"
    assert row.links
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", link) for link in row.links)
    assert not row.summary.endswith(".")
    assert row.installed is None
    if row.upgrade is not None:
        assert not in_range(row.upgrade, row.versions), "what it says is good is not in the bad range"
        Version(row.upgrade)
    if row.bound == "reported in":
        assert row.severity != "error", "a report alone is at most a warning"
    if not row.versions:
        assert row.note, "a range without a bound says why"
    if row.bound == "fixed in":
        assert row.upgrade is not None


def test_rows_when_listed_then_names_are_unique() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_row_when_version_and_features_are_its_own_then_it_fires(row: KnownBadRow) -> None:
    version = inside(row)
    matched, num_asked = matching_rows({row.packages[0]: version})
    mine = next(item for item in matched if item.id == row.id)
    assert num_asked >= 1
    assert mine.installed == f"{row.packages[0]} {version}"
    features = features_of(row)
    assert misfits(features) == ()
    assert mine.applies(features) is True
    assert mine.undecided(features) == ()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_row_when_the_version_is_outside_then_it_does_not_fire(row: KnownBadRow) -> None:
    other = outside(row)
    if other is None:
        assert row.versions == ""
        return
    assert row.id not in {item.id for item in matching_rows({row.packages[0]: other})[0]}
    assert row.id not in {item.id for item in matching_rows({"numpy": inside(row)})[0]}


@pytest.mark.parametrize(
    ("row", "name"),
    [(row, name) for row in ROWS for name in row.when],
    ids=[f"{row.id}-{name}" for row in ROWS for name in row.when],
)
def test_row_when_one_feature_is_otherwise_then_it_does_not_fire(row: KnownBadRow, name: str) -> None:
    features = features_of(row)
    assert row.applies(features | {name: opposite(row.when[name], name)}) is False
    del features[name]
    assert row.applies(features) is None
    assert row.undecided(features) == (name,)


@pytest.mark.parametrize(
    ("version", "specifier", "is_in"),
    [
        ("0.32.0", "<0.33", True),
        ("0.32.0+cu130", "==0.32.0", True),
        ("0.33.0rc1", "<0.33", False),
        ("0.32.1.dev5", "<0.33", True),
        ("0.23.1rc1.dev861+gcbe9c40f9", ">=0.23.1.dev0,<=0.23.1", True),
        ("unknown", "", False),
        ("main", "<1", False),
        ("0.5.23", "", True),
    ],
)
def test_in_range_when_a_version_is_odd_then_build_tags_do_not_count(
    version: str, specifier: str, is_in: bool
) -> None:
    assert in_range(version, specifier) is is_in


@pytest.mark.parametrize(
    ("condition", "value", "result"),
    [
        ("> 0", 0.7, True), ("> 0", 0, False), (">= 2", 2, True), ("!= 1", 2, True), ("<1", 0, True),
        ("> 0", True, False), ("> 0", "1", False), ("FLASHINFER", "flashinfer", True),
        (["a", "b"], "B", True), (["a"], "c", False), ([10.0, 10.3], 10.3, True), (10.0, 10, True),
        (True, True, True), (True, 1, False), (False, 0, False), (False, False, True), (1, True, False),
    ],
)  # fmt: skip
def test_holds_when_a_condition_meets_a_value_then_types_count(
    condition: Any, value: Any, result: bool
) -> None:
    assert holds(condition, value) is result


@pytest.mark.parametrize(
    "when",
    [{"nothing": 1}, {"method": 1}, {"method": ["a", 2]}, {"temperature": "warm"}, {"prefix_caching": "yes"},
     {"tensor_parallel": True}],
)  # fmt: skip
def test_conditions_when_they_do_not_fit_the_vocabulary_then_are_named(when: dict[str, Any]) -> None:
    assert len(condition_misfits(when)) == 1


def test_features_when_listed_then_names_are_unique_and_types_are_plain() -> None:
    assert len(BY_NAME) == len(FEATURES)
    assert {item.type for item in FEATURES} <= {str, int, float, bool}
    assert misfits({"method": "dflash", "temperature": 1, "prefix_caching": False}) == ()
    assert len(misfits({"nothing": 1, "method": 3, "temperature": True, "tensor_parallel": 1.5})) == 4
