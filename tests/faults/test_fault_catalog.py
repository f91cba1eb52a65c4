"""Every fault changes something, is the same for a seed and another for another, and names known causes."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="faults edit weights")

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.checkpoints.pair import read_pair
from dflash_doctor.diagnosis.catalog import causes
from dflash_doctor.errors import UsageError
from dflash_doctor.faults.base import NotApplicable, Specimen
from dflash_doctor.faults.catalog import (
    CONTROLS,
    FAULTS,
    FILE_FAULTS,
    FaultEntry,
    entry_called,
    prepare,
)
from dflash_doctor.settings import options

PAIR = bundled_fixtures() / "tiny_pair"
EVERYTHING = (*FAULTS, *CONTROLS)


def digest(folder: Path) -> dict[str, str]:
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def made(entry: FaultEntry, folder: Path, seed: int = 1) -> Specimen:
    try:
        return prepare(entry, PAIR, folder, seed=seed)
    except NotApplicable as reason:
        pytest.skip(str(reason))


def test_catalog_when_counted_then_is_as_large_as_promised_and_names_known_causes() -> None:
    assert len(FAULTS) >= 40
    assert len(CONTROLS) >= 12
    assert len({entry.name for entry in EVERYTHING}) == len(EVERYTHING)
    assert {cause for entry in FAULTS for cause in entry.causes} <= set(causes())
    assert all(entry.causes for entry in FAULTS)
    assert not any(entry.causes for entry in CONTROLS)
    assert all(entry.summary for entry in EVERYTHING)


@pytest.mark.parametrize("entry", EVERYTHING, ids=lambda entry: entry.name)
def test_prepare_when_a_fault_is_put_in_then_something_differs_and_the_same_seed_repeats_it(
    entry: FaultEntry, tmp_path: Path
) -> None:
    specimen = made(entry, tmp_path / "one")
    again = prepare(entry, PAIR, tmp_path / "again", seed=1)
    assert specimen.detail == again.detail
    assert (specimen.settings, specimen.shims) == (again.settings, again.shims)
    assert digest(specimen.folder) == digest(again.folder)
    healthy = tmp_path / "healthy"
    prepare(entry_called("untouched"), PAIR, healthy, seed=0)
    differs = digest(specimen.folder) != digest(healthy) or specimen.settings or specimen.shims
    assert bool(differs) == (entry.name != "untouched")
    assert set(specimen.settings) <= {item.name for item in options()}


@pytest.mark.parametrize("entry", FILE_FAULTS, ids=lambda entry: entry.name)
def test_prepare_when_the_seed_changes_then_faults_with_a_choice_choose_again(
    entry: FaultEntry, tmp_path: Path
) -> None:
    details = {made(entry, tmp_path / str(seed), seed).detail for seed in range(12)}
    one_way = {
        "mask-last-row", "rotary-interleaved", "tensor-zero", "layers-swapped", "layer-missing",
        "thinking-on", "drafter-of-another-target", "embedding-random", "head-random", "vocab-map-zero",
    }  # fmt: skip
    assert len(details) > 1 or entry.name in one_way


def test_prepare_when_a_fault_only_edits_the_config_then_the_pair_still_parses(tmp_path: Path) -> None:
    for entry in FILE_FAULTS:
        try:
            specimen = prepare(entry, PAIR, tmp_path / entry.name, seed=3)
        except NotApplicable:
            continue
        contract = read_pair(str(specimen.folder / "target"), str(specimen.folder / "draft"))
        assert contract.draft_config is not None, entry.name
        assert json.loads((specimen.folder / "draft" / "config.json").read_text())["hidden_size"] == 128


def test_prepare_when_a_pair_cannot_have_the_fault_then_says_why(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="no window"):
        prepare(entry_called("window-lost"), PAIR, tmp_path / "specimen", seed=0)
    with pytest.raises(UsageError, match="no such fault"):
        entry_called("no-such")


def test_specimen_when_tensors_are_written_then_read_back(tmp_path: Path) -> None:
    (tmp_path / "draft").mkdir()
    import torch

    specimen = Specimen(folder=tmp_path, rng=random.Random(0))
    specimen.write_tensors({"a": torch.ones(2, 3).T})
    assert torch.equal(specimen.tensors()["a"], torch.ones(3, 2))
