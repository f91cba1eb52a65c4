"""A trial's effect is paired, has an interval, and is named only where it was confirmed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.metrics.trials import trial_effect
from dflash_doctor.trials import Trial, TrialCounts

COUNT = 40


def trial(measure: str, counts: TrialCounts, *, confirmed: bool = True) -> Trial:
    return Trial(
        name="t",
        kind="intervention",
        cause="rotary-theta",
        change="a -> b",
        measure=measure,  # type: ignore[arg-type]
        screening=None if confirmed else counts,
        confirmation=counts if confirmed else None,
    )


def steps(factor: float, *, seed: int = 0, spread: float = 1.0) -> TrialCounts:
    generator = np.random.default_rng(seed)
    before = generator.integers(8, 40, COUNT)
    after = np.maximum(1, np.round(before * factor + generator.normal(0, spread, COUNT)))
    names = tuple(f"p{index}" for index in range(COUNT))
    return TrialCounts(prompt_ids=names, before=tuple(map(int, before)), after=tuple(map(int, after)))


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.8, "explains"), (0.988, "helps a little"), (1.0, "no effect"), (1.2, "worse")]
)
def test_trial_effect_when_steps_change_then_the_verdict_follows_the_interval(
    factor: float, verdict: str
) -> None:
    found = trial_effect(trial("verify-steps", steps(factor, spread=0.3)))
    assert found.effect.value == pytest.approx(factor - 1, abs=0.01)
    assert found.verdict == verdict


def test_trial_effect_when_only_screened_then_explains_nothing() -> None:
    assert trial_effect(trial("verify-steps", steps(0.7), confirmed=False)).verdict == "undecided"


def test_trial_effect_when_the_lengths_are_known_then_says_tokens_per_step() -> None:
    counts = TrialCounts(prompt_ids=("a", "b"), before=(10, 20), after=(5, 10))
    found = trial_effect(trial("verify-steps", counts), {"a": 30, "b": 30})
    assert (found.before.value, found.after.value) == (2.0, 4.0)
    assert found.effect.value == -0.5
    assert trial_effect(trial("verify-steps", counts)).before.value is None


@pytest.mark.parametrize(("after", "verdict"), [(990, "explains"), (930, "helps a little"), (800, "worse")])
def test_trial_effect_when_drafts_are_compared_then_half_of_the_gap_must_close(
    after: int, verdict: str
) -> None:
    names = tuple(f"p{index}" for index in range(COUNT))
    counts = TrialCounts(
        prompt_ids=names,
        before=tuple(900 + index % 5 for index in range(COUNT)),
        after=tuple(after + index % 3 for index in range(COUNT)),
        size_before=(1000,) * COUNT,
        size_after=(1000,) * COUNT,
    )
    found = trial_effect(trial("equal-drafts", counts))
    assert found.verdict == verdict
    assert found.after.value == pytest.approx(after / 1000, abs=0.002)


def test_trial_effect_when_texts_differ_then_compares_steps_per_token() -> None:
    names = tuple(f"p{index}" for index in range(COUNT))
    counts = TrialCounts(
        prompt_ids=names,
        before=tuple(20 + index % 4 for index in range(COUNT)),
        after=tuple(40 + index % 7 for index in range(COUNT)),
        size_before=(20,) * COUNT,
        size_after=(10,) * COUNT,
    )
    found = trial_effect(trial("acceptance", counts))
    assert found.before.value == pytest.approx(1.075)
    assert found.after.value == pytest.approx(4.2875, abs=0.01)
    assert found.effect.value == pytest.approx(1.075 / 4.2875 - 1, abs=0.01)
    assert found.verdict == "explains"


@given(st.lists(st.integers(1, 200), min_size=2, max_size=60))
def test_trial_effect_when_nothing_changes_then_there_is_no_effect(counts: list[int]) -> None:
    same = TrialCounts(
        prompt_ids=tuple(map(str, range(len(counts)))), before=tuple(counts), after=tuple(counts)
    )
    found = trial_effect(trial("verify-steps", same))
    assert (found.effect.value, found.effect.low, found.effect.high) == (0.0, 0.0, 0.0)
    assert found.verdict == "no effect"


def test_trial_effect_when_it_failed_or_has_one_text_then_claims_nothing() -> None:
    failed = Trial(
        name="t", kind="engine-run", cause="c", change="x", measure="acceptance", failed="it did not start"
    )
    assert trial_effect(failed).verdict == "failed"
    one = TrialCounts(prompt_ids=("a",), before=(10,), after=(2,))
    assert trial_effect(trial("verify-steps", one)).verdict == "undecided"
