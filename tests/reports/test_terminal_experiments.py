"""The terminal report tells what experiments showed."""

from __future__ import annotations

import re

import pytest
from record_factory import (
    estimate,
    make_experiments,
    make_record,
    make_reference,
    make_trial,
    with_experiments,
)
from rich.cells import cell_len
from test_experiments_on_page import hostile_experiments
from test_html_page import HOSTILE

from dflash_doctor.records import ExperimentRecord
from dflash_doctor.reports.terminal import render_terminal


def text_of(experiments: ExperimentRecord | None, *, width: int = 160) -> str:
    record = make_record() if experiments is None else with_experiments(make_record(), experiments)
    text = render_terminal(record, width=width, color=False)
    found = re.search(r"^(?:experiments|causes +not looked for).*?(?=^\S*acceptance|\Z)", text, re.S | re.M)
    return "" if found is None else " ".join(found[0].split())


def test_terminal_when_experiments_were_made_then_prints_what_they_showed() -> None:
    text = text_of(make_experiments())
    for part in (
        "experiments 7 in 26.50 s",
        "over 8 texts (cpu, float32)",
        "engine 20.0 % more steps [15.0, 25.0] than the reference; 75.0 % [70.0, 80.0] of its draft tokens",
        "explains target-layer-ids-shifted: target_layer_ids [2, 4] -> [1, 3]; "
        "25.0 % fewer steps [20.0, 30.0], 3.00 -> 4.00 tokens per step",
        "undecided causal-flag: bidirectional -> causal; 3.0 % fewer steps [-2.0, 8.0], "
        "3.00 -> 4.00 tokens per step (on the texts it was picked on)",
        "ruled out rotary-theta, draft-context-key-norm",
        "not tried rotary-layout: the config has no rotary settings",
        "not tried one slot less: out of memory",
        "ended everything was tried",
    ):
        assert part in text, part


def test_terminal_when_a_defect_is_reproduced_then_speaks_of_shares() -> None:
    trial = make_trial("draft-context-key-norm", measure="equal-drafts", before=0.8, after=0.9, effect=0.1)
    text = text_of(make_experiments(trials=(trial,)))
    assert "draft tokens equal to the engine's 80.0 % -> 90.0 % (+10.0 points [+5.0, +15.0])" in text


def test_terminal_when_the_engine_was_not_compared_then_does_not_speak_of_it() -> None:
    reference = make_reference(engine_excess_steps=estimate(None))
    assert "than the reference" not in text_of(make_experiments(reference=reference))


def test_terminal_when_many_trials_explain_then_counts_the_later_ones() -> None:
    text = text_of(make_experiments(trials=tuple(make_trial(f"cause-{i}") for i in range(9))))
    assert "cause-4" in text
    assert "cause-5" not in text
    assert "and 4 more" in text


@pytest.mark.parametrize("experiments", [None, ExperimentRecord()])
def test_terminal_when_there_were_no_experiments_then_prints_nothing(
    experiments: ExperimentRecord | None,
) -> None:
    assert text_of(experiments) == ""


def test_terminal_when_nothing_could_be_tried_then_says_why() -> None:
    assert "causes not looked for: no weights here" in text_of(
        ExperimentRecord(not_tried=("no weights here",))
    )


@pytest.mark.parametrize("width", [40, 100])
def test_terminal_when_texts_are_hostile_then_moves_no_cursor_and_keeps_its_width(width: int) -> None:
    record = with_experiments(make_record(), hostile_experiments(HOSTILE))
    text = render_terminal(record, width=width, color=False)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", text)
    assert max(map(cell_len, text.splitlines())) <= width
