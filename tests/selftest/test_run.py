"""A series of cases is chosen, carried out once each, and goes on where it was stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.errors import UsageError
from dflash_doctor.faults.base import NotApplicable
from dflash_doctor.selftest import run
from dflash_doctor.selftest.base import SelftestCase, SelftestResult

PAIR = bundled_fixtures() / "tiny_pair"


def test_cases_of_when_quick_then_only_defects_of_the_drafters_files_are_left() -> None:
    everything, quick = (run.cases_of([PAIR], [100, 101], quick=flag) for flag in (False, True))
    assert {case.place for case in quick} == {"config", "weights"}
    assert 20 < len(quick) < len(everything)
    assert {case.place for case in everything} >= {"engine", "tokenizer", "template", "traffic", "settings"}
    assert sum(case.is_control for case in everything) >= 24


def test_cases_of_when_a_name_is_wrong_or_nothing_is_left_then_says_so() -> None:
    with pytest.raises(UsageError, match="no such fault"):
        run.cases_of([PAIR], [1], only=["no-such"])
    with pytest.raises(UsageError, match="no case is left"):
        run.cases_of([PAIR], [1], only=["thinking-on"], quick=True)


def test_run_cases_when_interrupted_then_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried: list[str] = []

    def carry_out(case: SelftestCase) -> SelftestResult:
        if case.name == "window-lost":
            raise NotApplicable("it has no window")
        if len(carried) == 2:
            raise KeyboardInterrupt
        carried.append(case.name)
        return SelftestResult(case=case, detail="d", verdict="failed", named=(("x", 0.9),), codes=("DF405",))

    monkeypatch.setattr(run, "carry_out", carry_out)
    names = ["taps-shifted", "window-lost", "causal", "mask-special"]
    cases = run.cases_of([PAIR], [100], only=names)
    file = tmp_path / "results.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run.run_cases(cases, quick=False, results_file=file, told=lambda *_: None)
    assert carried == ["taps-shifted", "causal"]
    carried.clear()
    told: list[str] = []
    results = run.run_cases(
        cases, quick=False, results_file=file, told=lambda result, *_: told.append(result.case.name)
    )
    assert carried == ["mask-special"]
    assert told == [item.case.name for item in results] == ["taps-shifted", "causal", "mask-special"]
    assert all(item.case.pair == PAIR for item in results)
