"""The static checks for a terminal: findings by severity, each engine's reading, what was left open."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import Finding, RunRecord
from dflash_doctor.reports.headline import findings_of
from dflash_doctor.reports.print_field import print_field
from dflash_doctor.reports.readings import COLUMNS, reading_table
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
    """One line per engine: what it would do with the files; what differs from training stands out."""
    found = reading_table(record)
    if found is None:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in COLUMNS:
        table.add_column(overflow="fold")
    table.add_row(*(Text(word, style="bold") for word in COLUMNS))
    for row, differs in zip(found.rows, found.differs, strict=True):
        cells = zip(row, differs, strict=True)
        table.add_row(*(Text(visible(cell), style="yellow" if other else "") for cell, other in cells))
    console.print(table)
    if found.refusing:
        text = ", ".join(f"{reader} ({why})" for reader, why in found.refusing)
        print_field(console, "not by", visible(text), style="dim")
    console.print()


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
