"""The numbers of a run as lines for a terminal: acceptance, rejections, losslessness, speed."""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dflash_doctor.records import AcceptanceMetrics, Estimate, LosslessMetrics, Metrics
from dflash_doctor.reports.print_field import print_field
from dflash_doctor.reports.wording import (
    NO_DATA,
    interval,
    number,
    percent,
    percent_interval,
    plural,
    token_text,
    visible,
)

_NARROW = 84
_LONGEST_BAR = 44
_MAX_PAIRS = 5
_HEADINGS = (
    "acceptance",
    "requests",
    "steps",
    "acceptance length [95 %]",
    "accepted",
    "first",
    "near misses",
)
_LEFT_OUT_FIRST = (6, 5, 1, 2)
"""Columns that a narrow terminal does without, in this order."""


def print_numbers(console: Console, metrics: Metrics) -> None:
    """Print every table, each followed by an empty line; what is not known reads `no data`."""
    _acceptance(console, metrics)
    _positions(console, metrics)
    _rejections(console, metrics)
    _outcome(console, metrics)


def _acceptance(console: Console, metrics: Metrics) -> None:
    """One row a slice. Where not all columns fit, whole ones are left out: a number is never cut."""
    if metrics.overall is None:
        return
    segments = metrics.by_segment.values() if len(metrics.by_segment) > 1 else ()
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for row in (metrics.overall, *metrics.by_category.values(), *segments):
        rejections = (
            metrics.rejections if row is metrics.overall else metrics.rejections_by_category.get(row.label)
        )
        rows.append(_acceptance_cells(row, rejections.near_miss_share if rejections else None))
    widths = [max(cell_len(cells[index]) for cells in rows) for index in range(len(_HEADINGS))]
    kept = list(range(len(_HEADINGS)))
    for index in _LEFT_OUT_FIRST:
        if sum(widths[place] + 2 for place in kept) > console.width + 2:
            kept.remove(index)
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for index in kept:
        is_name = index == 0
        least = None if is_name else widths[index]
        table.add_column(
            justify="left" if is_name else "right", no_wrap=True, overflow="ellipsis", min_width=least
        )
    for number_of_row, cells in enumerate(rows):
        table.add_row(*(Text(cells[index], style="" if number_of_row else "bold") for index in kept))
    console.print(table)
    console.print()


def _acceptance_cells(row: AcceptanceMetrics, near_miss_share: float | None) -> tuple[str, ...]:
    return (
        visible(row.label),
        f"{row.num_requests:,}",
        number(row.num_drafts, 0),
        interval(row.mean_acceptance_length),
        percent(row.draft_acceptance_rate.value),
        percent(row.first_position_acceptance_rate.value),
        percent(near_miss_share, 0),
    )


def _positions(console: Console, metrics: Metrics) -> None:
    """A bar for each draft position: full up to the low end of the interval, shaded up to the high end."""
    if not metrics.by_position:
        return
    longest = max(8, min(_LONGEST_BAR, console.width - 48))
    is_wide = console.width >= _NARROW
    heading = "position  accepted in so many of the steps [95 %]"
    console.print(Text(heading + (", after the one before" if is_wide else ""), style="bold"))
    for item in metrics.by_position:
        line = Text.assemble(
            f"{item.position:>8}  ",
            (_bar(item.acceptance_rate, longest), "green"),
            f"  {percent_interval(item.acceptance_rate):<20}",
        )
        if is_wide:
            line.append(f"  {percent(item.conditional_acceptance_rate.value):>8}", style="dim")
        console.print(line)
    console.print()


def _bar(rate: Estimate, longest: int) -> str:
    if rate.value is None:
        return " " * longest
    low, high = (rate.value if end is None else end for end in (rate.low, rate.high))
    full = round(longest * max(0.0, low))
    shaded = round(longest * min(1.0, high)) - full
    return f"{'█' * full + '▒' * shaded:<{longest}}"


def _rejections(console: Console, metrics: Metrics) -> None:
    rejections = metrics.rejections
    if rejections is None or not rejections.num_rejections:
        return
    shares = (
        f"{percent(rejections.first_position_share, 0)} at the first position, "
        f"{percent(rejections.near_miss_share, 0)} near misses (the target's rank 2 to 5)"
    )
    console.print(Text.assemble(("rejections", "bold"), f"  {rejections.num_rejections:,} steps: {shares}"))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True, min_width=8)
    for _ in range(2):
        table.add_column(overflow="fold")
    for pair in rejections.pairs[:_MAX_PAIRS]:
        drafted, chosen = token_text(pair.drafted_text), token_text(pair.chosen_text)
        table.add_row(f"{pair.count:,} x", Text(f"drafted “{drafted}”"), Text(f"target chose “{chosen}”"))
    console.print(table)
    console.print()


def _outcome(console: Console, metrics: Metrics) -> None:
    print_field(console, "lossless", _lossless_words(metrics.lossless))
    timing = metrics.timing
    if timing is None:
        print_field(console, "speed", NO_DATA)
        return
    with_it, without = timing.speculative_output_tokens_per_s, timing.target_only_output_tokens_per_s
    text = f"{number(with_it, 0)} output tokens/s with speculation, {number(without, 0)} without"
    print_field(console, "speed", f"{text} (one pass each, not interleaved: for orientation)", style="dim")


def _lossless_words(lossless: LosslessMetrics | None) -> str:
    if lossless is None:
        return f"{NO_DATA}: the output was not compared with the target alone"
    parts = [f"{lossless.num_identical:,} of {lossless.num_compared:,} outputs identical to the target's own"]
    for count, words in (
        (lossless.num_ties, "part at a numerical tie"),
        (lossless.num_untriaged, "part, unknown whether at a tie"),
    ):
        if count:
            parts.append(f"{count:,} {words}")
    parts.append(plural(lossless.num_faults, "fault"))
    if lossless.tie_margin is not None:
        parts.append(f"tie margin {lossless.tie_margin:.3g} nats")
    return ", ".join(parts)
