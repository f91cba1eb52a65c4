"""Small drawings beside numbers, as inline SVG: intervals, shares and counts. The numbers say it all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from dflash_doctor.records import AcceptanceMetrics, Estimate
from dflash_doctor.reports.wording import percent

_ROW_WIDTH, _ROW_HEIGHT = 220, 18


@dataclass(frozen=True)
class Scale:
    """The acceptance lengths that a column of interval plots shares.

    Attributes:
        low: left end.
        high: right end.
        reference: where a line marks the whole run.
    """

    low: float
    high: float
    reference: float | None = None

    def place(self, value: float) -> float:
        """From 0 (left end) to 1 (right end), whatever the value."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return min(1.0, max(0.0, share))


def scale_of(
    overall: AcceptanceMetrics | None, rows: Sequence[AcceptanceMetrics], *, num_spec_tokens: int | None
) -> Scale:
    """From 1 (speculation yields nothing) to the longest seen, at most K + 1 (everything accepted)."""
    seen = [row.mean_acceptance_length for row in (*rows, *([overall] if overall else []))]
    high = math.ceil(max([2.0, *(item.high or item.value or 1.0 for item in seen)]))
    if num_spec_tokens:
        high = min(high, num_spec_tokens + 1)
    return Scale(1.0, high, overall.mean_acceptance_length.value if overall else None)


def interval_plot(estimate: Estimate, scale: Scale) -> Markup:
    """A dot with its 95 % interval on a scale; empty where there is no data."""
    if estimate.value is None:
        return Markup("")

    def x(value: float) -> float:
        return 5 + (_ROW_WIDTH - 10) * scale.place(value)

    middle = _ROW_HEIGHT / 2
    parts = [f'<line class="grid" x1="5" x2="{_ROW_WIDTH - 5}" y1="{middle}" y2="{middle}"/>']
    if scale.reference is not None:
        place = f"{x(scale.reference):.1f}"
        parts.append(f'<line class="reference" x1="{place}" x2="{place}" y1="0" y2="{_ROW_HEIGHT}"/>')
    if estimate.low is not None and estimate.high is not None:
        left = x(estimate.low)
        width = max(1.0, x(estimate.high) - left)
        parts.append(
            f'<rect class="span" x="{left:.1f}" y="{middle - 4}" width="{width:.1f}" height="8" rx="2"/>'
        )
    parts.append(f'<circle class="dot" cx="{x(estimate.value):.1f}" cy="{middle}" r="3"/>')
    return Markup(
        f'<svg class="row-plot" viewBox="0 0 {_ROW_WIDTH} {_ROW_HEIGHT}" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def value_bar(estimate: Estimate, high: float, style: str) -> Markup:
    """A bar from 0 with its 95 % interval, of class `style`; an empty track where there is no data.

    Args:
        estimate: the value, 0 or more.
        high: the value at which the bar fills its track.
        style: CSS class of the bar.
    """
    width, height = _ROW_WIDTH, 12

    def x(value: float) -> float:
        return width * Scale(0.0, high).place(value)

    parts = [f'<rect class="track" x="0" y="0" width="{width}" height="{height}" rx="2"/>']
    if estimate.value is not None:
        parts.append(
            f'<rect class="{escape(style)}" x="0" y="0" width="{x(estimate.value):.1f}" '
            f'height="{height}" rx="2"/>'
        )
        if estimate.low is not None and estimate.high is not None:
            parts.append(
                f'<path class="ends" d="M{x(estimate.low):.1f} 6H{x(estimate.high):.1f}'
                f'M{x(estimate.low):.1f} 3v6M{x(estimate.high):.1f} 3v6"/>'
            )
    return Markup(
        f'<svg class="value-bar" viewBox="0 0 {width} {height}" aria-hidden="true">{"".join(parts)}</svg>'
    )


@dataclass(frozen=True)
class Part:
    """A stretch of a share bar: its CSS class, label and count."""

    style: str
    label: str
    count: int


def share_bar(parts: Sequence[Part]) -> Markup:
    """One bar divided by the counts; parts without a count are left out."""
    total = sum(part.count for part in parts)
    drawn, left = [], 0.0
    for part in parts:
        if not part.count:
            continue
        width = 1000 * part.count / total
        gapped = max(width - 3, 2)
        drawn.append(
            f'<rect class="{escape(part.style)}" x="{left:.1f}" y="0" width="{gapped:.1f}" height="14">'
            f"<title>{escape(part.label)}: {part.count:,} ({percent(part.count / total)})</title></rect>"
        )
        left += width
    return Markup(
        '<svg class="share-bar" viewBox="0 0 1000 14" preserveAspectRatio="none" aria-hidden="true">'
        f"{''.join(drawn)}</svg>"
    )


def histogram(counts: Sequence[int]) -> Markup | None:
    """How many steps accepted 0, 1, ... K draft tokens; `None` without steps."""
    total = sum(counts)
    if not total:
        return None
    width, height, left, bottom, top = 560, 300, 10, 42, 24
    largest = max(counts)
    slot = (width - 2 * left) / len(counts)
    every = -(-len(counts) // 17)
    parts = []
    for accepted, count in enumerate(counts):
        tall = (height - top - bottom) * count / largest
        x, y, thick = left + slot * accepted + slot * 0.12, height - bottom - tall, slot * 0.76
        middle = left + slot * (accepted + 0.5)
        parts.append(
            f'<rect class="column" x="{x:.1f}" y="{y:.1f}" width="{thick:.1f}" height="{tall:.1f}" rx="2">'
            f"<title>{accepted} accepted: {count:,} steps ({percent(count / total)})</title></rect>"
        )
        if accepted % every == 0:
            parts.append(
                f'<text class="value" x="{middle:.1f}" y="{y - 5:.1f}" text-anchor="middle">'
                f"{escape(_short_percent(count / total))}</text>"
                f'<text class="axis" x="{middle:.1f}" y="{height - bottom + 17}" text-anchor="middle">'
                f"{accepted}</text>"
            )
    label = ", ".join(f"{accepted}: {percent(count / total)}" for accepted, count in enumerate(counts))
    return Markup(
        f'<svg class="plot" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="Steps by number of accepted draft tokens. {label}">{"".join(parts)}'
        f'<line class="base" x1="{left}" x2="{width - left}" y1="{height - bottom}" y2="{height - bottom}"/>'
        f'<text class="axis" x="{width / 2}" y="{height - 6}" text-anchor="middle">'
        "draft tokens accepted in a step</text></svg>"
    )


def _short_percent(share: float) -> str:
    """Whole percent; little is not nothing."""
    return "<1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"
