"""The terminal report says the verdict first, fits its width, and shows nothing that moves the cursor."""

from __future__ import annotations

import re

import pytest
from evidence_factory import make_evidence
from hypothesis import given
from hypothesis import strategies as st
from record_factory import make_record

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import Estimate
from dflash_doctor.reports.terminal import render, render_terminal, wants_color
from dflash_doctor.reports.wording import interval, number, percent, percent_interval, visible


def test_render_terminal_when_healthy_then_verdict_and_numbers_are_there() -> None:
    text = render_terminal(make_record(num_requests=20), width=100, color=False)
    assert text.startswith("PASSED  Healthy: 20 of 20 outputs are the target's own;")
    for part in ("DF301", "math", "code", "tokens per step", "rejections", "report.html", "K = 7"):
        assert part in text


def test_render_terminal_when_failed_then_finding_has_three_parts_and_cause_follows() -> None:
    text = render_terminal(make_record(accept=0.0), width=100, color=False)
    assert text.startswith("FAILED  DF402")
    for part in (
        "DF402 error",
        "observed:",
        "expected:",
        "do:",
        "Causes, best first",
        "dflash-doctor explain",
    ):
        assert part in text


@pytest.mark.parametrize("width", [40, 72, 100, 160])
def test_render_terminal_when_given_a_width_then_stays_within_it(width: int) -> None:
    text = render_terminal(make_record(), width=width, color=False)
    assert max(len(line) for line in text.splitlines()) <= width


def test_render_terminal_when_color_is_off_then_has_no_escapes() -> None:
    assert "\x1b" not in render_terminal(make_record(accept=0.0), width=100, color=False)
    assert "\x1b[" in render_terminal(make_record(), width=100, color=True)


def test_render_terminal_when_texts_are_hostile_then_controls_are_written_out() -> None:
    hostile = "\x1b[2J\x07\u202egnp[bold]x[/bold]"
    evidence = make_evidence(categories=(hostile,), token_texts=dict.fromkeys(range(1000), hostile))
    record = make_record(evidence=evidence, changes={"summary": hostile, "incomplete": hostile})
    text = render_terminal(record, width=120, color=False)
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
    assert "<U+001B>[2J<U+0007><U+202E>gnp[bold]x[/bold]" in text


def test_render_when_nothing_was_learnt_then_still_renders() -> None:
    record = make_record(evidence=Evidence(), changes={"incomplete": "the engine died", "workload": None})
    assert "the engine died" in render(record, None).decode()


def test_wants_color_when_no_color_is_set_then_is_false(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_color(Terminal())  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_color(Terminal())  # type: ignore[arg-type]


def test_wording_when_there_is_no_data_then_says_no_data() -> None:
    absent = Estimate(value=None)
    assert {number(None), percent(None), interval(absent), percent_interval(absent)} == {"no data"}
    assert interval(Estimate(value=4.0912, low=3.9, high=4.3)) == "4.09 [3.90, 4.30]"
    assert interval(Estimate(value=4.0912)) == "4.09"
    assert percent_interval(Estimate(value=0.76, low=0.72, high=0.8)) == "76.0 % [72.0, 80.0]"


@given(st.text())
def test_visible_when_given_any_text_then_all_of_it_can_be_seen(text: str) -> None:
    shown = visible(text)
    assert all(character.isprintable() or character.isspace() for character in shown)
    assert not re.search("[\x00-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]", shown)
    if text.isascii() and text.isprintable():
        assert shown == text
