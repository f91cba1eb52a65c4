"""Drawings show what the numbers say, also at the edges: nothing known, one position, a hundred."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from evidence_factory import make_evidence
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.metrics.compute import compute_metrics
from dflash_doctor.records import Estimate, PositionMetrics
from dflash_doctor.reports.curve import acceptance_curve
from dflash_doctor.reports.plots import Part, Scale, histogram, interval_plot, scale_of, share_bar, value_bar

NUMBER = re.compile(r"-?\d+\.?\d*")


def position(index: int, value: float | None, width: float = 0.05) -> PositionMetrics:
    rate = (
        Estimate(value=None)
        if value is None
        else Estimate(value=value, low=max(0, value - width), high=min(1, value + width), num_requests=9)
    )
    return PositionMetrics(
        position=index, num_drafted=10, num_accepted=5, acceptance_rate=rate, conditional_acceptance_rate=rate
    )


def elements(svg: str, tag: str, name: str | None = None) -> list[ElementTree.Element]:
    found = ElementTree.fromstring(svg).iter(tag)
    return [node for node in found if name is None or node.get("class") == name]


def test_acceptance_curve_when_there_are_no_positions_then_is_none() -> None:
    assert acceptance_curve(()) is None


@given(st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=64), st.none() | st.integers(1, 70))
def test_acceptance_curve_when_given_any_rates_then_draws_them_inside_the_picture(
    rates: list[float | None], num_in_block: int | None
) -> None:
    svg = acceptance_curve([position(i, rate) for i, rate in enumerate(rates)], num_in_block=num_in_block)
    assert svg is not None
    dots = elements(svg, "circle", "dot")
    assert len(dots) == sum(rate is not None for rate in rates)
    places = [(float(dot.get("cx", "")), float(dot.get("cy", ""))) for dot in dots]
    assert all(0 <= x <= 560 and 20 <= y <= 258 for x, y in places)
    known = [rate for rate in rates if rate is not None]
    for (_, y), rate in zip(places, known, strict=True):
        assert y == pytest.approx(20 + 238 * (1 - rate), abs=0.06)
    for line in elements(svg, "polyline", "marginal"):
        assert len(line.get("points", "").split()) > 1
    shaded = num_in_block is not None and num_in_block < len(rates)
    assert len(elements(svg, "rect", "beyond")) == shaded


def test_acceptance_curve_when_a_rate_is_missing_then_does_not_bridge_it() -> None:
    svg = acceptance_curve([position(i, rate) for i, rate in enumerate((0.9, 0.8, None, 0.6, 0.5))])
    assert svg is not None
    assert [len(line.get("points", "").split()) for line in elements(svg, "polyline", "marginal")] == [2, 2]


def test_acceptance_curve_when_read_aloud_then_says_every_rate() -> None:
    svg = acceptance_curve([position(0, 0.9), position(1, None)])
    assert svg is not None
    assert 'aria-label="Acceptance rate by draft position, share of all steps. 0: 90.0 %, 1: no data"' in svg


@given(
    st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=9),
    st.lists(st.none() | st.floats(0, 1), max_size=12),
)
def test_acceptance_curve_when_there_is_a_reference_then_draws_it_where_positions_are_the_same(
    rates: list[float | None], reference: list[float | None]
) -> None:
    svg = acceptance_curve(
        [position(i, rate) for i, rate in enumerate(rates)],
        reference=[position(i, rate) for i, rate in enumerate(reference)],
    )
    assert svg is not None
    shown = [rate for rate in reference[: len(rates)] if rate is not None]
    marks = [float(mark.get("y", "")) + 3 for mark in elements(svg, "rect", "ideal-mark")]
    assert marks == pytest.approx([20 + 238 * (1 - rate) for rate in shown], abs=0.06)
    assert ("Reference: " in svg) == bool(shown)


@given(st.floats(0, 9), st.floats(0, 3), st.integers(1, 9))
def test_value_bar_when_given_any_value_then_stays_on_its_track(
    value: float, width: float, high: int
) -> None:
    svg = value_bar(Estimate(value=value, low=max(0, value - width), high=value + width), high, "after")
    bar = elements(svg, "rect", "after")[0]
    assert float(bar.get("width", "")) == pytest.approx(220 * min(1, value / high), abs=0.06)
    numbers = [float(part) for part in NUMBER.findall(elements(svg, "path", "ends")[0].get("d", ""))]
    assert all(0 <= number <= 220 for number in numbers)


def test_value_bar_when_there_is_no_data_then_is_an_empty_track() -> None:
    assert len(elements(value_bar(Estimate(value=None), 1, "after"), "rect")) == 1


def test_interval_plot_when_drawn_then_dot_lies_in_its_interval() -> None:
    svg = interval_plot(Estimate(value=4.0, low=3.0, high=5.0), Scale(1.0, 9.0, 4.5))
    dot, span = elements(svg, "circle", "dot")[0], elements(svg, "rect", "span")[0]
    left, width = float(span.get("x", "")), float(span.get("width", ""))
    assert left == pytest.approx(5 + 210 * 0.25, abs=0.06)
    assert left + width == pytest.approx(5 + 210 * 0.5, abs=0.11)
    assert float(dot.get("cx", "")) == pytest.approx(left + width / 2, abs=0.11)
    assert interval_plot(Estimate(value=None), Scale(1.0, 9.0)) == ""


def test_scale_when_values_lie_outside_then_stays_on_the_scale() -> None:
    scale = Scale(1.0, 3.0)
    assert [scale.place(value) for value in (0.0, 1.0, 2.0, 9.0)] == [0.0, 0.0, 0.5, 1.0]
    assert Scale(1.0, 1.0).place(5.0) == 0.0


def test_scale_of_when_a_block_can_be_accepted_whole_then_ends_there() -> None:
    metrics = compute_metrics(make_evidence(accept=0.99))
    rows = list(metrics.by_category.values())
    assert scale_of(metrics.overall, rows, num_spec_tokens=7).high == 8
    assert scale_of(None, (), num_spec_tokens=None) == Scale(1.0, 2, None)


def test_share_bar_when_drawn_then_parts_have_their_share() -> None:
    svg = share_bar([Part("good", "identical", 75), Part("tie", "none", 0), Part("bad", "faults", 25)])
    bars = elements(svg, "rect")
    assert [(bar.get("class"), bar.get("x")) for bar in bars] == [("good", "0.0"), ("bad", "750.0")]
    assert bars[1].find("title").text == "faults: 25 (25.0 %)"  # type: ignore[union-attr]


def test_histogram_when_drawn_then_columns_have_the_height_of_their_share() -> None:
    svg = histogram((50, 0, 100, 1))
    assert svg is not None
    heights = [float(node.get("height", "")) for node in elements(svg, "rect", "column")]
    assert heights[0] == pytest.approx(heights[2] / 2, abs=0.1)
    assert heights[1] == 0
    labels = [node.text for node in elements(svg, "text", "value")]
    assert labels == ["33 %", "0 %", "66 %", "1 %"]
    assert "&lt;1 %" in str(histogram((1, 999)))
    assert histogram(()) is None
    assert histogram((0, 0)) is None
