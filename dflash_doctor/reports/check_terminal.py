"""The static checks for a terminal: findings by severity, each engine's reading, what was left open."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dflash_doctor.contract.pair import Reading
from dflash_doctor.evidence import Evidence
from dflash_doctor.records import Finding, RunRecord
from dflash_doctor.reports.headline import findings_of
from dflash_doctor.reports.terminal_numbers import print_field
from dflash_doctor.reports.wording import VERDICT_WORDS, visible

_STYLES = {"error": "red", "warning": "yellow", "info": "cyan"}
_VERDICT_STYLES = {"passed": "bold green", "failed": "bold red", "errored": "bold red"}
_TITLES = {"error": "errors", "warning": "warnings", "info": "notes"}
_NARROWEST, _PLAIN_WIDTH = 40, 100


def render(record: RunRecord, evidence: Evidence | None) -> bytes:
    """Plain text, without colour, at 100 columns."""
    return render_check(record, width=_PLAIN_WIDTH, color=False).encode("utf-8", errors="replace")


def render_check(record: RunRecord, *, width: int, color: bool) -> str:
    """The whole report as text, no line longer than `width` columns (40 at least)."""
    buffer = io.StringIO()
    console = Console(
        file=buffer, width=max(_NARROWEST, width), force_terminal=color, no_color=not color, highlight=False,
        emoji=False, markup=False, legacy_windows=False,
    )  # fmt: skip
    style = _VERDICT_STYLES.get(record.verdict, "bold yellow")
    console.print(
        Text.assemble((VERDICT_WORDS[record.verdict], style), "  ", (visible(record.summary), "bold"))
    )
    console.print()
    _identity(console, record)
    for severity in _TITLES:
        _group(console, [item for item in findings_of(record) if item.severity == severity], severity)
    _readings(console, record)
    _checks(console, record)
    lines = (line.rstrip() for line in buffer.getvalue().splitlines())
    return "\n".join(lines) + "\n"


def _identity(console: Console, record: RunRecord) -> None:
    draft = f" + {visible(record.pair.draft)}" if record.pair.draft else ""
    print_field(console, "pair", f"{visible(record.pair.target)}{draft} ({visible(record.pair.method)})")
    contract = record.contract
    if contract is None:
        return
    print_field(console, "served by", visible(contract.served_by))
    pair = contract.pair
    if pair is not None and pair.draft is not None and pair.draft_config is not None:
        sizes = f"{_size(pair.target.num_bytes)} + {_size(pair.draft.num_bytes)}"
        print_field(console, "family", f"{visible(pair.draft_config.dialect)}, {sizes} of weights, not read")
    console.print()


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:,.1f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:,.1f} MB"


def _group(console: Console, findings: list[Finding], severity: str) -> None:
    if not findings:
        return
    console.print(Text(f"{_TITLES[severity]} ({len(findings)})", style=f"bold {_STYLES[severity]}"))
    for item in findings:
        place = ":".join(str(part) for part in (item.where.file, item.where.line) if part is not None)
        console.print(Text.assemble("  ", (item.code, _STYLES[severity]), "  ", visible(item.message)))
        for name, text in (
            ("at", f"{place} {item.where.field or ''}".strip()),
            ("seen", item.observed),
            ("expected", item.expected),
            ("do", item.remedy),
            ("edit", item.edit or ""),
        ):
            if text:
                print_field(console, name, visible(text), indent=4)
    console.print()


def _readings(console: Console, record: RunRecord) -> None:
    """One line per engine: what it would do with the drafter's files."""
    pair = record.contract.pair if record.contract is not None else None
    if pair is None or pair.trained is None or pair.draft_config is None:
        return
    if not pair.draft_config.is_block_drafter:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(6):
        table.add_column(overflow="fold")
    table.add_row(*(Text(word, style="bold") for word in _COLUMNS))
    table.add_row(*_row("trained", pair.trained))
    for item in pair.readings:
        if item.refuses is None:
            table.add_row(*_row(item.reader, item))
    console.print(table)
    refusing = [f"{item.reader} ({item.refuses})" for item in pair.readings if item.refuses is not None]
    if refusing:
        print_field(console, "not by", visible(", ".join(refusing)), style="dim")
    console.print()


_COLUMNS = ("read by", "taps", "drafted", "causal layers", "rotary base", "part rotated")


def _row(name: str, reading: Reading) -> list[Text]:
    taps = ", ".join(map(str, reading.taps)) if reading.taps else (reading.taps_from or "none")
    causal = "no data" if reading.causal is None else f"{sum(reading.causal)} of {len(reading.causal)}"
    theta = "no data" if reading.rope_theta is None else f"{reading.rope_theta:,.0f}"
    drafted = "no data" if reading.num_draft_tokens is None else str(reading.num_draft_tokens)
    part = f"{100 * (reading.partial_rotary_factor or 1):g} %"
    layout = "" if reading.neox is None else (" halves" if reading.neox else " pairs")
    return [Text(visible(text)) for text in (name, taps, drafted, causal, theta, part + layout)]


def _checks(console: Console, record: RunRecord) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in record.checks:
        if check.verdict == "passed":
            table.add_row(Text("ok", style="green"), Text(check.code), Text(visible(check.reason)))
    for check in record.checks:
        if check.verdict not in ("passed", "failed"):
            word = "open" if check.verdict == "skipped" else VERDICT_WORDS[check.verdict]
            named = f"{check.name}: {check.reason}"
            table.add_row(Text(word, style="dim"), Text(check.code), Text(visible(named)))
    console.print(table)
