"""A search names what helps on texts that had no part in picking it, stops early, and keeps to its budget."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dflash_doctor.errors import UsageError
from dflash_doctor.experiments.base import TrialPlan
from dflash_doctor.experiments.search import Counts, Search, Split, merged, split_texts
from dflash_doctor.metrics.trials import trial_effect
from dflash_doctor.reference.knobs import Knobs

NUM_TEXTS = 80
SPLIT = Split(tuple(range(24)), tuple(range(24, NUM_TEXTS)))


def plan(name: str, cause: str, **knobs: Any) -> TrialPlan:
    return TrialPlan(name=name, cause=cause, knobs=Knobs(**knobs), change=f"{name} changed")


def noisy(factor: float, seed: int) -> Callable[[Knobs, Sequence[int]], Counts]:
    generator = random.Random(seed)
    noise = [generator.gauss(0, 1) for _ in range(NUM_TEXTS)]
    return lambda _knobs, numbers: Counts(
        {number: max(1, round(20 * factor + noise[number])) for number in numbers}
    )


def steps_search(measure: Any, **changes: Any) -> Search:
    given_: dict[str, Any] = {
        "kind": "intervention",
        "measure_name": "verify-steps",
        "measure": measure,
        "unchanged": Counts(dict.fromkeys(range(NUM_TEXTS), 20)),
        "prompt_ids": [f"p{number}" for number in range(NUM_TEXTS)],
        "split": SPLIT,
        "deadline": math.inf,
        "progress": lambda *_: None,
    }
    return Search(**{**given_, **changes})


def by_theta(**factors: float) -> Callable[[Knobs, Sequence[int]], Counts]:
    """Steps scaled by the factor that belongs to the knob's theta."""

    def measure(knobs: Knobs, numbers: Sequence[int]) -> Counts:
        factor = factors.get(f"t{knobs.rope_theta:g}" if knobs.rope_theta else "", 1.0)
        return Counts({number: round(20 * factor) + number % 2 for number in numbers})

    return measure


def test_search_when_one_change_helps_then_it_is_confirmed_on_other_texts() -> None:
    search = steps_search(by_theta(t5=0.85, t7=1.3))
    search.run([plan("five", "rotary-theta", rope_theta=5.0), plan("seven", "rotary-theta", rope_theta=7.0)])
    five, seven = search.trials
    assert five.confirmation is not None
    assert set(five.confirmation.prompt_ids).isdisjoint(five.screening.prompt_ids if five.screening else ())
    assert trial_effect(five).verdict == "explains"
    assert seven.confirmation is None
    assert trial_effect(seven).verdict == "worse"
    assert search.stopped is None


def test_search_when_one_change_explains_most_then_only_what_looks_like_it_is_tried_on() -> None:
    search = steps_search(by_theta(t5=0.4))
    search.run(
        [
            plan("five", "rotary-theta", rope_theta=5.0),
            plan("mask", "mask-token-wrong", mask_token_id=1),
            plan("layout", "rotary-layout", neox=False),
        ]
    )
    assert [trial.name for trial in search.trials] == ["five", "layout"]
    assert search.stopped is not None
    assert "explains the loss" in search.stopped


def test_search_when_time_is_up_then_says_how_much_is_left() -> None:
    search = steps_search(by_theta(), deadline=time.monotonic() - 1)
    search.run([plan("a", "rotary-theta", rope_theta=1.0), plan("b", "rotary-theta", rope_theta=2.0)])
    assert search.trials == []
    assert search.stopped is not None
    assert "2 experiments left" in search.stopped


def test_search_when_a_change_cannot_be_made_then_the_others_are_tried() -> None:
    def measure(knobs: Knobs, numbers: Sequence[int]) -> Counts:
        if knobs.taps:
            raise UsageError("a knob does not fit", seen="3 taps", remedy="")
        return by_theta()(knobs, numbers)

    search = steps_search(measure)
    search.run(
        [plan("taps", "target-layer-ids-shifted", taps=(1,)), plan("t", "rotary-theta", rope_theta=2.0)]
    )
    assert search.trials[0].failed == "a knob does not fit: 3 taps"
    assert trial_effect(search.trials[0]).verdict == "failed"
    assert search.trials[1].screening is not None


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000))
def test_search_when_forty_changes_do_nothing_then_none_explains_anything(seed: int) -> None:
    """The best of many harmless changes looks good on the texts that picked it, and on those alone."""
    measures = [noisy(1.0, seed * 100 + index) for index in range(40)]

    def measure(knobs: Knobs, numbers: Sequence[int]) -> Counts:
        return measures[int(knobs.rope_theta or 0)](knobs, numbers)

    search = steps_search(measure)
    search.run([plan(f"t{index}", f"cause-{index}", rope_theta=float(index + 0)) for index in range(1, 40)])
    assert [trial.name for trial in search.trials if trial_effect(trial).verdict == "explains"] == []


def equal_search(share: Callable[[Knobs], float], **changes: Any) -> Search:
    def measure(knobs: Knobs, numbers: Sequence[int]) -> Counts:
        # A little of each text's own, so that an interval has a width.
        counts = {
            number: round(1000 * min(1.0, share(knobs) + 0.002 * (number % 3 - 1))) for number in numbers
        }
        return Counts(counts, dict.fromkeys(numbers, 1000))

    everything = range(NUM_TEXTS)
    return steps_search(
        measure,
        kind="reproduction",
        measure_name="equal-drafts",
        unchanged=measure(Knobs(), everything),
        **changes,
    )


def test_search_when_two_defects_hide_each_other_then_both_are_found() -> None:
    def share(knobs: Knobs) -> float:
        if knobs.taps == (2,):
            return 0.99 if knobs.context_key_norm_of == 0 else 0.90
        return 0.605 if knobs.context_key_norm_of == 0 else 0.60

    search = equal_search(share, max_rounds=3)
    search.run(
        [
            plan("norm", "draft-context-key-norm", context_key_norm_of=0),
            plan("taps", "target-layer-ids-shifted", taps=(2,)),
            plan("shift", "draft-position-error", query_shift=1),
        ]
    )
    explaining = [trial.name for trial in search.trials if trial_effect(trial).verdict == "explains"]
    assert explaining == ["taps", "norm"]


def test_search_when_the_first_defect_explains_nearly_all_then_there_is_no_second_round() -> None:
    search = equal_search(lambda knobs: 0.99 if knobs.taps else 0.6, max_rounds=3)
    search.run([plan("taps", "target-layer-ids-shifted", taps=(2,)), plan("x", "causal-flag", causal=True)])
    assert [trial.name for trial in search.trials] == ["taps"]


def test_merged_when_both_touch_a_knob_then_the_second_wins() -> None:
    both = merged(Knobs(rope_theta=1.0, neox=False), Knobs(rope_theta=2.0, causal=True))
    assert both == Knobs(rope_theta=2.0, neox=False, causal=True)


@given(st.lists(st.sampled_from("abcde"), max_size=150))
def test_split_texts_when_any_texts_are_split_then_every_one_is_on_one_side(categories: list[str]) -> None:
    split = split_texts(categories)
    assert sorted((*split.screening, *split.confirmation)) == list(range(len(categories)))
    assert len(split.screening) <= 24
    for name in set(categories):
        if categories.count(name) >= 30:
            assert any(categories[number] == name for number in split.screening)
            assert any(categories[number] == name for number in split.confirmation)
