"""Numbers and untrusted texts are written so that nobody is misled."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.records import AcceptanceMetrics, Estimate
from dflash_doctor.reports.wording import (
    DEFINITIONS,
    PLAIN_NAMES,
    interval,
    number,
    percent,
    percent_interval,
    plural,
    probability,
    seconds,
    token_text,
    visible,
)

ABSENT = Estimate(value=None)


def test_wording_when_there_is_no_data_then_says_no_data() -> None:
    shown = {number(None), percent(None), seconds(None), interval(ABSENT), percent_interval(ABSENT)}
    assert shown == {"no data"}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (interval(Estimate(value=4.0912, low=3.9, high=4.3)), "4.09 [3.90, 4.30]"),
        (interval(Estimate(value=4.0912)), "4.09"),
        (percent_interval(Estimate(value=0.76, low=0.72, high=0.8)), "76.0 % [72.0, 80.0]"),
        (percent_interval(Estimate(value=0.76)), "76.0 %"),
        (number(12345.678), "12,345.68"),
        (number(0), "0.00"),
        (seconds(0.0123), "12.3 ms"),
        (seconds(1.5), "1.50 s"),
        (seconds(1234), "1,234 s"),
        (probability(-0.1), "p 90 %"),
        (probability(-3.4), "p 3.3 %"),
        (probability(-5.3), "p 0.50 %"),
        (probability(-9.1), "p 0.011 %"),
        (probability(-50.0), "p < 0.001 %"),
        (probability(0.0), "p 100 %"),
        (probability(None), "p no data"),
        (probability(math.nan), "p no data"),
        (probability(-math.inf), "p < 0.001 %"),
        (plural(1, "step"), "1 step"),
        (plural(2166, "step"), "2,166 steps"),
    ],
)
def test_wording_when_given_a_number_then_writes_it(shown: str, expected: str) -> None:
    assert shown == expected


def test_definitions_when_listed_then_every_metric_has_a_name_and_a_meaning() -> None:
    assert set(PLAIN_NAMES) == set(DEFINITIONS)
    metrics = set(AcceptanceMetrics.__struct_fields__) - {"label", "acceptance_histogram"}
    assert metrics <= set(DEFINITIONS)


@given(st.text())
def test_visible_when_given_any_text_then_all_of_it_can_be_seen(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert not re.search("[\x00-\x1f\x7f\xa0\xad\u200b-\u200f\u202a-\u202e\u2066-\u2069\u3164\ufeff]", shown)
    if text.isascii() and text.isprintable():
        assert shown == text


@given(st.text(), st.text())
def test_visible_when_texts_are_joined_then_nothing_changes(one: str, other: str) -> None:
    assert visible(one + other) == visible(one) + visible(other)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc\r", "a⏎b⇥c␍"),
        ("\u202egnp.exe", "<U+202E>gnp.exe"),
        ("no\u00a0break", "no<U+00A0>break"),
        ("\ud800", "<U+D800>"),
        ("\x1b[2J", "<U+001B>[2J"),
        ("日本語 עברית ok", "日本語 עברית ok"),
    ],
)
def test_visible_when_something_hides_then_writes_it_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_token_text_when_it_is_only_spaces_then_shows_each() -> None:
    assert [token_text(text) for text in ("  ", " a", "", "\n")] == ["␣␣", " a", "", "⏎"]
