"""The self-test's tables count what was right, and say what was not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.selftest.base import SelftestCase, SelftestResult
from dflash_doctor.selftest.table import confusion_table, misses, rate_interval, summary_table

PAIR = Path("pairs") / "tiny"


def result(
    name: str, *named: str, causes: tuple[str, ...] = ("rotary-theta",), **more: Any
) -> SelftestResult:
    given_: dict[str, Any] = {
        "case": SelftestCase(name=name, place="config", pair=PAIR, seed=100, causes=causes),
        "detail": "theta 1 -> 2",
        "verdict": "failed" if named else "passed",
        "named": tuple((cause, 0.95 - 0.1 * rank) for rank, cause in enumerate(named)),
        "codes": (),
        "duration_s": 20.0,
        "has_experiment": True,
    }
    return SelftestResult(**{**given_, **more})


RESULTS = [
    result("a", "rotary-theta"),
    result("b", "mask-token-wrong", "rotary-theta"),
    result("c"),
    result("d", "rotary-theta", error="the engine died", verdict="errored"),
    result("healthy", causes=()),
    result("accused", "causal-flag", causes=()),
]


def test_result_when_judged_then_a_cause_must_be_first_and_a_control_left_alone() -> None:
    assert [item.is_right for item in RESULTS] == [True, False, False, False, True, False]
    assert [item.is_in_top_2 for item in RESULTS[:4]] == [True, True, False, False]


def test_tables_when_written_then_count_faults_and_false_alarms() -> None:
    text = summary_table(RESULTS)
    assert "| config | 4 | 25 % [5, 70] | 50 % | 1 of 1 | 20 s |" in text
    assert "False alarms on healthy controls: 1 of 2" in text
    matrix = confusion_table(RESULTS)
    assert "| rotary-theta | ✓ 1, mask-token-wrong 1, (nothing) 1, (could not run) 1 |" in matrix
    assert "(healthy)" in matrix.splitlines()[-1]
    lines = misses(RESULTS)
    assert len(lines) == 4
    assert "wanted rotary-theta" in lines[0]
    assert "the engine died" in lines[2]
    assert "wanted nothing" in lines[3]


@given(st.integers(0, 60), st.integers(0, 60))
def test_rate_interval_when_any_rate_is_given_then_holds_it(hits: int, others: int) -> None:
    low, high = rate_interval(hits, hits + others)
    assert 0 <= low <= high <= 1
    if hits + others:
        assert low <= hits / (hits + others) <= high


def test_rate_interval_when_compared_with_scipy_then_is_wilsons() -> None:
    stats = pytest.importorskip("scipy.stats", reason="the oracle is optional")
    expected = stats.binomtest(38, 40).proportion_ci(method="wilson")
    assert rate_interval(38, 40) == pytest.approx((expected.low, expected.high))
