"""Draws acceptance by draft position as inline SVG; needs no script and no colour of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from markupsafe import Markup

from dflash_doctor.records import Estimate, PositionMetrics
from dflash_doctor.reports.wording import percent, percent_interval

_WIDTH, _HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 20, 42
_MAX_LABELS = 16
"""More draft positions than this are labelled in part."""

_Place = Callable[[float], float]


def acceptance_curve(
    positions: Sequence[PositionMetrics],
    *,
    num_in_block: int | None = None,
    reference: Sequence[PositionMetrics] = (),
) -> Markup | None:
    """Share of all steps with a 95 % band, and share of those that got as far; `None` without positions.

    Args:
        positions: from the first draft position on.
        num_in_block: draft tokens that the drafter's block holds (block_size - 1); positions beyond are
            shaded.
        reference: the same of the reference drafter, drawn over it where positions are the same.
    """
    if not positions:
        return None
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(index: float) -> float:
        return _LEFT + width * (index + 0.5) / len(positions)

    def y(rate: float) -> float:
        return _TOP + height * (1 - rate)

    marginal = [item.acceptance_rate for item in positions]
    conditional = [item.conditional_acceptance_rate for item in positions]
    of_reference = {item.position: item.acceptance_rate for item in reference}
    ideal = [of_reference.get(item.position, Estimate(value=None)) for item in positions]
    parts = [
        *_beyond_block(len(positions), num_in_block, x, height),
        *_grid(y),
        *_axis(positions, x),
        *_band(marginal, x, y),
        *_line([item.value for item in conditional], x, y, "conditional"),
        *_dots(conditional, x, y, "ring", 3, "of the steps that got there"),
        *_line([item.value for item in ideal], x, y, "ideal"),
        *_squares(ideal, x, y),
        *_line([item.value for item in marginal], x, y, "marginal"),
        *_whiskers(marginal, x, y),
        *_dots(marginal, x, y, "dot", 3.5, "of all steps"),
        *_values(marginal, x, y),
    ]
    summary = ", ".join(f"{item.position}: {percent(item.acceptance_rate.value)}" for item in positions)
    label = f"Acceptance rate by draft position, share of all steps. {summary}"
    if any(item.value is not None for item in ideal):
        rates = zip(positions, ideal, strict=True)
        label += ". Reference: " + ", ".join(f"{item.position}: {percent(e.value)}" for item, e in rates)
    # Every piece above is a number formatted here, so nothing in it needs escaping.
    return Markup(
        f'<svg class="plot curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


def _beyond_block(count: int, num_in_block: int | None, x: _Place, height: int) -> Iterator[str]:
    if num_in_block is None or not 0 < num_in_block < count:
        return
    left = x(num_in_block - 0.5)
    width = _WIDTH - _RIGHT - left
    yield f'<rect class="beyond" x="{left:.1f}" y="{_TOP}" width="{width:.1f}" height="{height}"/>'
    yield f'<text class="axis" x="{left + 6:.1f}" y="{_TOP + 14}">beyond the block</text>'


def _grid(y: _Place) -> Iterator[str]:
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        place = f"{y(tick):.1f}"
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{place}" y2="{place}"/>'
        yield f'<text class="axis" x="{_LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.0%}</text>'


def _axis(positions: Sequence[PositionMetrics], x: _Place) -> Iterator[str]:
    every = -(-len(positions) // _MAX_LABELS)
    for index, item in enumerate(positions):
        if index % every == 0:
            yield (
                f'<text class="axis" x="{x(index):.1f}" y="{_HEIGHT - _BOTTOM + 17}" '
                f'text-anchor="middle">{item.position}</text>'
            )
    middle = _LEFT + (_WIDTH - _LEFT - _RIGHT) / 2
    yield (
        f'<text class="axis" x="{middle:.0f}" y="{_HEIGHT - 6}" text-anchor="middle">'
        "draft position (0 is the first drafted token)</text>"
    )


def _band(estimates: Sequence[Estimate], x: _Place, y: _Place) -> Iterator[str]:
    upper = [(x(i), y(e.high)) for i, e in enumerate(estimates) if e.low is not None and e.high is not None]
    lower = [(x(i), y(e.low)) for i, e in enumerate(estimates) if e.low is not None and e.high is not None]
    if len(upper) > 1:
        points = " ".join(f"{left:.1f},{top:.1f}" for left, top in [*upper, *reversed(lower)])
        yield f'<polygon class="band" points="{points}"/>'


def _line(values: Sequence[float | None], x: _Place, y: _Place, name: str) -> Iterator[str]:
    """One polyline for each stretch without gaps: a missing value is not bridged."""
    stretch: list[str] = []
    for index, value in enumerate([*values, None]):
        if value is not None:
            stretch.append(f"{x(index):.1f},{y(value):.1f}")
        elif len(stretch) > 1:
            yield f'<polyline class="{name}" points="{" ".join(stretch)}"/>'
        if value is None:
            stretch = []


def _whiskers(estimates: Sequence[Estimate], x: _Place, y: _Place) -> Iterator[str]:
    for index, item in enumerate(estimates):
        if item.low is not None and item.high is not None:
            place = f"{x(index):.1f}"
            yield (
                f'<line class="whisker" x1="{place}" x2="{place}" y1="{y(item.low):.1f}" '
                f'y2="{y(item.high):.1f}"/>'
            )


def _dots(
    estimates: Sequence[Estimate], x: _Place, y: _Place, name: str, radius: float, of_what: str
) -> Iterator[str]:
    for index, item in enumerate(estimates):
        if item.value is not None:
            yield (
                f'<circle class="{name}" cx="{x(index):.1f}" cy="{y(item.value):.1f}" r="{radius}">'
                f"<title>position {index}: {percent_interval(item)} {of_what}</title></circle>"
            )


def _squares(estimates: Sequence[Estimate], x: _Place, y: _Place) -> Iterator[str]:
    for index, item in enumerate(estimates):
        if item.value is not None:
            yield (
                f'<rect class="ideal-mark" x="{x(index) - 3:.1f}" y="{y(item.value) - 3:.1f}" width="6" '
                f'height="6"><title>position {index}: {percent_interval(item)} of the reference\'s steps'
                "</title></rect>"
            )


def _values(estimates: Sequence[Estimate], x: _Place, y: _Place) -> Iterator[str]:
    """Percent under each point, or over it where the axis is near."""
    if len(estimates) > _MAX_LABELS:
        return
    for index, item in enumerate(estimates):
        if item.value is None:
            continue
        place = y(item.low if item.low is not None else item.value) + 15
        if place > _HEIGHT - _BOTTOM - 4:
            place = y(item.high if item.high is not None else item.value) - 7
        yield (
            f'<text class="value" x="{x(index):.1f}" y="{place:.1f}" text-anchor="middle">'
            f"{100 * item.value:.0f}</text>"
        )
