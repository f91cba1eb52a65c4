"""Faults of several kinds, put into the bundled pair, are named with an experiment behind them."""

from __future__ import annotations

import pytest
from doctor_process import PAIR, RealRun

from dflash_doctor.evidence import Evidence
from dflash_doctor.faults.catalog import entry_called
from dflash_doctor.runs import read_traces
from dflash_doctor.selftest.base import SelftestCase
from dflash_doctor.selftest.carry_out import carry_out_on_texts

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def healthy(real_run: RealRun) -> Evidence:
    return read_traces(real_run.folder / "traces.jsonl")


@pytest.mark.parametrize("name", ["taps-shifted", "mask-special", "layers-swapped", "reduced-vocabulary"])
def test_carry_out_when_a_fault_is_put_in_then_it_is_named_and_proven(name: str, healthy: Evidence) -> None:
    entry = entry_called(name)
    case = SelftestCase(name=name, place=entry.place, pair=PAIR, seed=1, causes=entry.causes)
    result = carry_out_on_texts(case, healthy)
    assert result.is_right, result
    if entry.causes:
        assert result.has_experiment
        assert result.codes == ("DF405",)
