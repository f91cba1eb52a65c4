"""The report for a terminal: verdict first, then findings, then numbers."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import AcceptanceMetrics, CheckRecord, Finding, Metrics, RunRecord
from dflash_doctor.reports.wording import (
    NO_DATA,
    VERDICT_WORDS,
    interval,
    number,
    percent,
    percent_interval,
    visible,
)

_VERDICT_STYLES = {
    "passed": "bold green",
    "failed": "bold red",
    "errored": "bold red",
    "inconclusive": "bold yellow",
    "skipped": "dim",
}
_SEVERITY_STYLES = {"error": "red", "warning": "yellow", "info": "cyan"}
_BAR_WIDTH = 30
_MAX_PAIRS = 5
_PLAIN_WIDTH = 100


def render(record: RunRecord, evidence: Evidence | None) -> bytes:
    """Plain text, without colour, at 100 columns."""
    return render_terminal(record, width=_PLAIN_WIDTH, color=False).encode()


def wants_color(stream: io.TextIOBase | None = None) -> bool:
    """Whether colour belongs there: a terminal, and no NO_COLOR (no-color.org)."""
    target = stream if stream is not None else sys.stdout
    return target.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def render_terminal(record: RunRecord, *, width: int, color: bool) -> str:
    """The whole report as text for a terminal of this width."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=max(40, width),
        force_terminal=color,
        no_color=not color,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    _headline(console, record)
    _findings(console, record)
    _causes(console, record)
    _checks(console, record.checks)
    _acceptance(console, record.metrics)
    _positions(console, record.metrics)
    _rejections(console, record.metrics)
    _files(console, record)
    lines = (line.rstrip() for line in buffer.getvalue().splitlines())
    return "\n".join(lines) + "\n"


def _headline(console: Console, record: RunRecord) -> None:
    verdict = (VERDICT_WORDS[record.verdict], _VERDICT_STYLES[record.verdict])
    console.print(Text.assemble(verdict, "  ", visible(record.summary)))
    pair = record.pair
    draft = f" + {visible(pair.draft)}" if pair.draft else ""
    console.print(Text(f"pair      {visible(pair.target)}{draft} ({pair.method})", style="dim"))
    facts = record.engine
    if facts is not None:
        parts = [f"{facts.name} {facts.version or ''}".strip()]
        parts += [str(item) for item in (facts.device, facts.dtype, facts.runner_generation) if item]
        if facts.num_spec_tokens is not None:
            parts.append(f"K = {facts.num_spec_tokens}")
        parts.append(f"level {record.level or NO_DATA}")
        console.print(Text("engine    " + ", ".join(parts), style="dim"))
    if record.workload is not None:
        work = record.workload
        console.print(
            Text(
                f"workload  {work.num_prompts} prompts in {len(work.categories)} categories, "
                f"temperature {work.temperature:g}, at most {work.max_tokens} tokens, "
                f"thinking {work.thinking}",
                style="dim",
            )
        )
    if record.incomplete:
        console.print(Text("stopped   " + visible(record.incomplete), style="red"))
    console.print()


def _findings(console: Console, record: RunRecord) -> None:
    for check in record.checks:
        for finding in check.findings:
            if finding.severity == "info" and record.verdict != "passed":
                continue
            for line in finding_lines(finding):
                console.print(line)
            console.print()


def finding_lines(finding: Finding) -> Iterable[Text]:
    """A finding in its three parts."""
    style = _SEVERITY_STYLES[finding.severity]
    yield Text.assemble((f"{finding.code} {finding.severity}", style), " ", visible(finding.message))
    for name, text in (
        ("observed", finding.observed),
        ("expected", finding.expected),
        ("do", finding.remedy),
    ):
        if text:
            yield Text.assemble((f"  {name + ':':<10}", "dim"), visible(text))


def _causes(console: Console, record: RunRecord) -> None:
    if not record.diagnosis:
        return
    console.print(Text("Causes, best first", style="bold"))
    for cause in record.diagnosis:
        console.print(Text(f"  {cause.cause} ({cause.confidence:.2f}, {cause.kind}): {cause.summary}"))
        for against in cause.against:
            console.print(Text(f"    against: {visible(against)}", style="dim"))
    console.print(Text(f"  dflash-doctor explain {record.diagnosis[0].cause}", style="dim"))
    console.print()


def _checks(console: Console, checks: Iterable[CheckRecord]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for check in checks:
        table.add_row(
            Text(VERDICT_WORDS[check.verdict], style=_VERDICT_STYLES[check.verdict]),
            Text(check.code),
            Text(check.name),
            Text(visible(check.reason), style="dim"),
        )
    console.print(table)
    console.print()


def _acceptance(console: Console, metrics: Metrics) -> None:
    if metrics.overall is None:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("acceptance", no_wrap=True)
    for heading in ("requests", "steps", "tokens per step", "accepted", "first position", "near misses"):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = [metrics.overall, *metrics.by_category.values(), *metrics.by_segment.values()]
    for row in rows:
        rejections = (
            metrics.rejections if row is metrics.overall else metrics.rejections_by_category.get(row.label)
        )
        table.add_row(*_acceptance_row(row, rejections.near_miss_share if rejections else None))
    console.print(table)
    console.print()


def _acceptance_row(row: AcceptanceMetrics, near_miss_share: float | None) -> tuple[str, ...]:
    return (
        visible(row.label),
        str(row.num_requests),
        number(row.num_drafts, 0),
        interval(row.mean_acceptance_length),
        percent(row.draft_acceptance_rate.value),
        percent(row.first_position_acceptance_rate.value),
        percent(near_miss_share, 0),
    )


def _positions(console: Console, metrics: Metrics) -> None:
    if not metrics.by_position:
        return
    console.print(
        Text("position  accepted in so many of the steps [95 %], after the one before", style="bold")
    )
    for item in metrics.by_position:
        rate = item.acceptance_rate.value or 0.0
        bar = "█" * round(_BAR_WIDTH * rate)
        console.print(
            Text.assemble(
                f"{item.position:>8}  ",
                (f"{bar:<{_BAR_WIDTH}}", "green"),
                f"  {percent_interval(item.acceptance_rate):<22}",
                (f"{percent(item.conditional_acceptance_rate.value):>8}", "dim"),
            )
        )
    console.print()


def _rejections(console: Console, metrics: Metrics) -> None:
    rejections = metrics.rejections
    if rejections is None or not rejections.num_rejections:
        return
    console.print(
        Text(
            f"rejections  {rejections.num_rejections:,} steps; {percent(rejections.first_position_share)} at "
            f"the first position; {percent(rejections.near_miss_share)} near misses (target's rank 2 to 5)",
            style="bold",
        )
    )
    for pair in rejections.pairs[:_MAX_PAIRS]:
        drafted, chosen = visible(repr(pair.drafted_text)), visible(repr(pair.chosen_text))
        console.print(Text(f"  {pair.count:>5} x  drafted {drafted}, target chose {chosen}"))
    timing = metrics.timing
    if (
        timing is not None
        and timing.speculative_output_tokens_per_s
        and timing.target_only_output_tokens_per_s
    ):
        console.print(
            Text(
                f"\nspeed  {timing.speculative_output_tokens_per_s:,.0f} output tokens/s with speculation, "
                f"{timing.target_only_output_tokens_per_s:,.0f} without (one pass each, not interleaved: "
                "for orientation)",
                style="dim",
            )
        )
    console.print()


def _files(console: Console, record: RunRecord) -> None:
    names = [name for name in (record.artifacts.report, record.artifacts.traces) if name]
    console.print(
        Text(f"run {record.run_id}, {record.duration_s:.0f} s; files: {', '.join(names)}", style="dim")
    )
