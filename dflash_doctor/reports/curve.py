"""Draws acceptance by draft position as inline SVG; needs no script and no colour of its own."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from dflash_doctor.records import PositionMetrics
from dflash_doctor.reports.wording import percent

_WIDTH, _HEIGHT = 640, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 12, 40


def acceptance_curve(positions: Sequence[PositionMetrics]) -> Markup | None:
    """The marginal curve with whiskers and the conditional one dashed; `None` without positions."""
    if not positions:
        return None
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(index: int) -> float:
        return _LEFT + width * (index + 0.5) / len(positions)

    def y(rate: float) -> float:
        return _TOP + height * (1 - rate)

    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        )
        parts.append(
            f'<text class="axis" x="{_LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.0%}</text>'
        )
    every = max(1, len(positions) // 16)
    marginal, conditional = [], []
    for index, item in enumerate(positions):
        if index % every == 0:
            parts.append(
                f'<text class="axis" x="{x(index):.1f}" y="{_HEIGHT - 20}" text-anchor="middle">'
                f"{item.position}</text>"
            )
        rate, after = item.acceptance_rate, item.conditional_acceptance_rate.value
        if after is not None:
            conditional.append(f"{x(index):.1f},{y(after):.1f}")
        if rate.value is None:
            continue
        marginal.append(f"{x(index):.1f},{y(rate.value):.1f}")
        if rate.low is not None and rate.high is not None:
            parts.append(
                f'<line class="whisker" x1="{x(index):.1f}" x2="{x(index):.1f}" '
                f'y1="{y(rate.low):.1f}" y2="{y(rate.high):.1f}"/>'
            )
        parts.append(
            f'<circle class="dot" cx="{x(index):.1f}" cy="{y(rate.value):.1f}" r="4">'
            f"<title>position {item.position}: {percent(rate.value)}</title></circle>"
        )
    parts.append(f'<polyline class="conditional" points="{" ".join(conditional)}"/>')
    parts.append(f'<polyline class="line" points="{" ".join(marginal)}"/>')
    parts.append(
        f'<text class="axis" x="{_LEFT + width / 2:.0f}" y="{_HEIGHT - 3}" text-anchor="middle">'
        "draft position</text>"
    )
    summary = ", ".join(f"{item.position}: {percent(item.acceptance_rate.value)}" for item in positions)
    # Every piece above is a number formatted here, so nothing in it needs escaping.
    return Markup(
        f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="Acceptance rate by draft position: {summary}">{"".join(parts)}</svg>'
    )
