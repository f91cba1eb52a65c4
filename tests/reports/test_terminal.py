"""The terminal report says the verdict first, fits its width, and shows nothing that moves the cursor."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from evidence_factory import make_evidence, make_generation
from record_factory import make_record
from rich.cells import cell_len
from test_html_page import HOSTILE, hostile_evidence, hostile_record

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import CheckRecord, LosslessMetrics, Metrics
from dflash_doctor.reports.terminal import render, render_terminal, wants_color

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")


def text_of(*, width: int = 100, color: bool = False, **made: Any) -> str:
    return render_terminal(make_record(**made), width=width, color=color)


def test_render_terminal_when_healthy_then_verdict_and_numbers_are_there() -> None:
    text = text_of(num_requests=20, width=140)
    assert text.startswith("PASSED  Healthy: 20 of 20 outputs are the target's own;")
    assert "do first" not in text
    for part in (
        "pair ",
        "engine ",
        "K = 7",
        "level token",
        "  DF301  all 20 outputs",
        "acceptance length [95 %]",
        "near misses",
        "overall ",
        "math ",
        "code ",
        "position ",
        "rejections ",
        "lossless  20 of 20 outputs identical",
        "not interleaved: for orientation",
        "report.html, traces.jsonl",
    ):
        assert part in text, part


def test_render_terminal_when_failed_then_what_to_do_and_the_three_parts_come_before_numbers() -> None:
    text = text_of(accept=0.0)
    assert text.startswith("FAILED  DF402 ")
    parts = (
        "do first",
        "DF402 error",
        "seen",
        "expected",
        "  do  ",
        "causes",
        "dflash-doctor explain",
        "FAILED   DF402  acceptance-near-one",
    )
    places = [text.index(f"{part}", 10) for part in parts]
    assert places == sorted(places)
    assert places[-1] < text.index("acceptance  ")


def test_render_terminal_when_a_check_did_not_pass_then_names_it() -> None:
    checks = (
        CheckRecord(code="DF401", name="bad-thing", family="f", verdict="passed", reason="all fine"),
        CheckRecord(code="DF402", name="other-thing", family="f", verdict="skipped", reason="not run"),
        CheckRecord(code="DF101", name="pair-thing", family="f", verdict="passed", reason="fits"),
        CheckRecord(code="DF104", name="bad-taps", family="f", verdict="failed", reason="tap 9 is outside"),
        CheckRecord(code="DF105", name="misread", family="f", verdict="skipped", reason="not checked: x"),
    )
    text = text_of(changes={"checks": checks})
    assert "PASSED   DF401  all fine" in text
    assert "SKIPPED  DF402  other-thing: not run" in text
    assert "PASSED   DF0-2  1 checks of files, packages and settings" in text
    assert "SKIPPED  DF0-2  1 of them not checked or not applicable" in text
    assert "FAILED   DF104  bad-taps: tap 9 is outside" in text


@pytest.mark.parametrize("width", [40, 72, 83, 84, 100, 160])
@pytest.mark.parametrize("accept", [0.0, 0.7])
def test_render_terminal_when_given_a_width_then_stays_within_it(width: int, accept: float) -> None:
    text = text_of(width=width, accept=accept, categories=("数学の長い長い名前", "code"))
    assert max(cell_len(line) for line in text.splitlines()) <= width
    if width >= 60:
        assert "…" not in text


def test_render_terminal_when_wide_then_shows_more_columns() -> None:
    assert "near misses" in text_of(width=100).split("\nposition")[0]
    assert "near misses" not in text_of(width=60).split("\nposition")[0]


def test_render_terminal_when_drawing_bars_then_shades_the_interval() -> None:
    lines = text_of(num_requests=20).splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("position"))
    bars = [re.search("█*▒*", line[10:]).group() for line in lines[start + 1 : start + 8]]  # type: ignore[union-attr]
    assert all("▒" in bar for bar in bars)
    lengths = [len(bar) for bar in bars]
    assert lengths == sorted(lengths, reverse=True)
    first = re.search(r"\[([\d.]+), ([\d.]+)\]", lines[start + 1])
    assert first is not None
    assert bars[0].count("█") == round(44 * float(first[1]) / 100)
    assert len(bars[0]) == round(44 * float(first[2]) / 100)


def test_render_terminal_when_color_is_off_then_has_no_escapes() -> None:
    assert "\x1b" not in text_of(accept=0.0)
    assert "\x1b[" in text_of(color=True)


def test_render_terminal_when_color_is_on_then_says_the_same() -> None:
    plain = re.sub("\x1b\\[[0-9;]*m", "", text_of(accept=0.0, color=True))
    # Trailing blanks differ: they may be styled.
    assert [line.rstrip() for line in plain.splitlines()] == text_of(accept=0.0).splitlines()


@pytest.mark.parametrize("color", [False, True])
def test_render_terminal_when_texts_are_hostile_then_controls_are_written_out(color: bool) -> None:
    evidence = hostile_evidence()
    escape = "\x1b[2J\x07[bold]x[/bold]"
    record = hostile_record(evidence)
    record = msgspec.structs.replace(record, incomplete=escape)
    text = render_terminal(record, width=4000, color=color)
    assert not CONTROL.search(re.sub("\x1b\\[[0-9;]*m", "", text))
    assert "<U+001B>[2J<U+0007>[bold]x[/bold]" in text
    assert HOSTILE[:40] in text


def test_render_when_nothing_was_learnt_then_says_no_data() -> None:
    reason = "the engine died\n  seen: exit code -9\n  do:   use fewer prompts"
    record = make_record(
        evidence=Evidence(),
        changes={"verdict": "errored", "incomplete": reason, "workload": None, "metrics": Metrics()},
    )
    text = render(record, None).decode()
    assert text.startswith("ERRORED  The engine died\ndo first  use fewer prompts\n")
    assert "\nseen      exit code -9\n" in text
    assert "lossless  no data" in text
    assert "speed     no data" in text


def test_render_terminal_when_outputs_part_then_counts_each_kind() -> None:
    lossless = LosslessMetrics(
        num_compared=20, num_identical=14, num_ties=3, num_faults=1, num_untriaged=2, tie_margin=0.125
    )
    metrics = msgspec.structs.replace(make_record().metrics, lossless=lossless)
    text = " ".join(text_of(width=160, changes={"metrics": metrics}).split())
    assert (
        "lossless 14 of 20 outputs identical to the target's own, 3 part at a numerical tie, 2 part, unknown "
        "whether at a tie, 1 fault, tie margin 0.125 nats"
    ) in text


def test_render_terminal_when_acceptance_is_simulated_then_says_so() -> None:
    evidence = make_evidence()
    facts = msgspec.structs.replace(evidence.facts, lossy_settings=("rejection_sample_method=synthetic",))
    text = text_of(evidence=msgspec.structs.replace(evidence, facts=facts))
    assert "lossy     rejection_sample_method=synthetic" in text


def test_render_terminal_when_the_engine_gives_nothing_then_prints_no_zero() -> None:
    evidence = make_evidence()
    assert evidence.speculative is not None
    bare = [
        msgspec.structs.replace(item, steps=None, counters=None) for item in evidence.speculative.requests
    ]
    changed = msgspec.structs.replace(evidence, speculative=make_generation(bare))
    line = next(line for line in text_of(evidence=changed).splitlines() if line.startswith("overall"))
    assert line.count("no data") == 5
    assert " 0" not in line


def test_wants_color_when_no_color_is_set_then_is_false(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_color(Terminal())  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_color(Terminal())  # type: ignore[arg-type]
