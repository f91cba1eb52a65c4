"""Words of experiments: the interval speaks of what the word says, whatever the sign."""

from __future__ import annotations

import re

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from record_factory import estimate, make_experiments, make_reference, make_trial

from dflash_doctor.records import Estimate
from dflash_doctor.reports.experiment_words import change_words, engine_words, ruled_out, shown_trials

NUMBER = re.compile(r"[-+]?\d+\.\d")


@given(st.floats(-0.99, 3), st.sampled_from(["verify-steps", "equal-drafts", "acceptance"]))
def test_change_words_when_it_has_an_interval_then_the_number_lies_in_it(value: float, measure: str) -> None:
    words = change_words(make_trial(effect=value, measure=measure))
    number, low, high = map(float, NUMBER.findall(words))
    assert low <= number <= high
    assert "-0.0" not in words.partition("[")[2]
    if measure != "equal-drafts":
        assert number >= 0
        assert ("more" in words) == (value > 0)


def test_change_words_when_there_is_no_interval_then_has_no_brackets() -> None:
    trial = make_trial()
    alone = msgspec.structs.replace(trial, effect=Estimate(value=-0.25))
    assert change_words(alone) == "25.0 % fewer steps"
    assert change_words(make_trial(effect=None)) == "no data"


def test_engine_words_when_the_engine_takes_fewer_steps_then_says_so() -> None:
    words = engine_words(make_reference(engine_excess_steps=estimate(-0.1)))
    assert words is not None
    assert words.startswith("10.0 % fewer steps [5.0, 15.0] than the reference")


def test_shown_trials_when_listed_then_the_strongest_come_first() -> None:
    verdicts = [trial.verdict for trial in shown_trials(make_experiments())]
    assert verdicts == ["explains", "helps a little", "undecided"]


def test_ruled_out_when_a_share_was_measured_then_the_largest_gain_is_the_best() -> None:
    trials = tuple(
        make_trial("x", "no effect", measure="equal-drafts", effect=effect, change=str(effect))
        for effect in (0.01, None, 0.03, -0.5)
    )
    (item,) = ruled_out(make_experiments(trials=trials))
    assert (item.best.change, item.num_trials) == ("0.03", 4)
