"""The report for a terminal: verdict and what to do first, then findings, then numbers."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import CheckRecord, Finding, RunRecord
from dflash_doctor.reports.headline import STATIC_FAMILIES, findings_of, groups_of, headline
from dflash_doctor.reports.print_field import print_field
from dflash_doctor.reports.terminal_experiments import print_experiments
from dflash_doctor.reports.terminal_numbers import print_numbers
from dflash_doctor.reports.wording import NO_DATA, VERDICT_WORDS, percent, seconds, visible

_VERDICT_STYLES = {
    "passed": "bold green",
    "failed": "bold red",
    "errored": "bold red",
    "inconclusive": "bold yellow",
    "skipped": "dim",
}
_SEVERITY_STYLES = {"error": "red", "warning": "yellow", "info": "cyan"}
_NARROWEST, _PLAIN_WIDTH = 40, 100
_MAX_CASES = 3
_NOT_LOOKED_AT = "{} of them not checked or not applicable: dflash-doctor check says why"


def render(record: RunRecord, evidence: Evidence | None) -> bytes:
    """Plain text, without colour, at 100 columns."""
    return render_terminal(record, width=_PLAIN_WIDTH, color=False).encode("utf-8", errors="replace")


def wants_color(stream: io.TextIOBase | None = None) -> bool:
    """Whether colour belongs there: a terminal, and no NO_COLOR (no-color.org)."""
    target = stream if stream is not None else sys.stdout
    return target.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def render_terminal(record: RunRecord, *, width: int, color: bool) -> str:
    """The whole report as text, no line longer than `width` columns (40 at least).

    Args:
        record: the run.
        width: columns of the terminal.
        color: whether to use ANSI colours; without, the text holds no escape sequence at all.
    """
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=max(_NARROWEST, width),
        force_terminal=color,
        no_color=not color,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    _headline(console, record)
    _identity(console, record)
    _findings(console, findings_of(record))
    _causes(console, record)
    _checks(console, record.checks)
    print_experiments(console, record.metrics.experiments)
    print_numbers(console, record.metrics)
    _files(console, record)
    lines = (line.rstrip() for line in buffer.getvalue().splitlines())
    return "\n".join(lines) + "\n"


def _headline(console: Console, record: RunRecord) -> None:
    first = headline(record)
    code = f"{visible(first.finding.code)} " if first.finding is not None else ""
    word = (VERDICT_WORDS[record.verdict], _VERDICT_STYLES[record.verdict])
    console.print(Text.assemble(word, "  ", (f"{code}{visible(first.sentence)}", "bold")))
    if record.verdict != "passed" or first.todo != "Nothing.":
        print_field(console, "do first", visible(first.todo), style="bold")
    if first.seen is not None and first.finding is None:
        print_field(console, "seen", visible(first.seen))
    console.print()


def _identity(console: Console, record: RunRecord) -> None:
    pair = record.pair
    draft = f" + {visible(pair.draft)}" if pair.draft else ""
    print_field(console, "pair", f"{visible(pair.target)}{draft} ({visible(pair.method)})")
    facts = record.engine
    if facts is not None:
        parts = [f"{facts.name} {facts.version or ''}".strip()]
        parts += [str(item) for item in (facts.device, facts.dtype, facts.runner_generation) if item]
        if facts.num_spec_tokens is not None:
            parts.append(f"K = {facts.num_spec_tokens}")
        parts.append(f"level {record.level or NO_DATA}")
        print_field(console, "engine", visible(", ".join(parts)))
        if facts.lossy_settings:
            print_field(console, "lossy", visible(", ".join(facts.lossy_settings)), style="yellow")
    if record.workload is not None:
        work = record.workload
        how = "greedy" if work.temperature == 0 else f"temperature {work.temperature:g}"
        limit = NO_DATA if work.max_tokens is None else f"at most {work.max_tokens} tokens"
        text = f"{work.num_prompts:,} prompts in {len(work.categories)} categories, {how}, {limit}"
        print_field(console, "workload", f"{text}, thinking {visible(work.thinking)}")
    if record.incomplete and record.verdict != "errored":
        lines = (visible(line.strip()) for line in record.incomplete.splitlines())
        print_field(console, "stopped", "\n".join(lines), style="red")
    console.print()


def _findings(console: Console, findings: Sequence[Finding]) -> None:
    for group in groups_of(findings):
        first = group[0]
        style = _SEVERITY_STYLES[first.severity]
        times = f"  ({len(group)} times)" if len(group) > 1 else ""
        title = Text.assemble(
            (visible(f"{first.code} {first.severity}"), style), "  ", visible(first.message), times
        )
        console.print(title)
        for finding in group[:_MAX_CASES]:
            if finding.observed:
                print_field(console, "seen", visible(finding.observed), indent=2)
        if len(group) > _MAX_CASES:
            print_field(console, "", f"and {len(group) - _MAX_CASES} more", style="dim")
        if first.expected:
            print_field(console, "expected", visible(first.expected), indent=2)
        if first.remedy:
            print_field(console, "do", visible(first.remedy), indent=2)
        console.print()


def _causes(console: Console, record: RunRecord) -> None:
    if not record.diagnosis:
        return
    console.print(Text("causes, likeliest first", style="bold"))
    for cause in record.diagnosis:
        name = f"{cause.cause}  {percent(cause.confidence, 0)}, {cause.kind}"
        console.print(Text(visible(f"  {name}: {cause.summary}")))
        for against in cause.against:
            print_field(console, "against", visible(against), indent=4, style="dim")
    console.print(Text(visible(f"  dflash-doctor explain {record.diagnosis[0].cause}"), style="dim"))
    console.print()


def _checks(console: Console, checks: Sequence[CheckRecord]) -> None:
    """One line each; what did not pass is named, for a passed check the name of the bad thing misleads."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    static = [check for check in checks if check.code.startswith(STATIC_FAMILIES)]
    for verdict, words in (
        ("passed", "{} checks of files, packages and settings"),
        ("skipped", _NOT_LOOKED_AT),
    ):
        codes = [check.code for check in static if check.verdict == verdict]
        if codes:
            word = Text(VERDICT_WORDS[verdict], style=_VERDICT_STYLES[verdict])
            table.add_row(word, Text("DF0-2"), Text(words.format(len(codes))))
    for check in checks:
        if check in static and check.verdict in ("passed", "skipped"):
            continue
        named = check.reason if check.verdict == "passed" else f"{check.name}: {check.reason}"
        word = Text(VERDICT_WORDS[check.verdict], style=_VERDICT_STYLES[check.verdict])
        table.add_row(word, Text(visible(check.code)), Text(visible(named)))
    if checks:
        console.print(table)
        console.print()


def _files(console: Console, record: RunRecord) -> None:
    artifacts = record.artifacts
    names: Iterable[str | None] = (artifacts.report, artifacts.traces, artifacts.engine_log)
    files = ", ".join(visible(name) for name in names if name) or "none"
    print_field(
        console, "run", f"{visible(record.run_id)}, {seconds(record.duration_s)}; files: {files}", style="dim"
    )
