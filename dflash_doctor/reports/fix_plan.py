"""The exact edits and engine flags that put the findings right, in the order in which to apply them.

Nothing is applied: a config belongs to whoever released it, and every edit should be looked at.
"""

from __future__ import annotations

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import Finding, RunRecord
from dflash_doctor.reports.headline import findings_of
from dflash_doctor.reports.wording import visible

_RANK = {"error": 0, "warning": 1, "info": 2}


def render(record: RunRecord, evidence: Evidence | None) -> bytes:
    """Plain text: one numbered step per edit, then what has no exact edit."""
    findings = sorted(findings_of(record), key=lambda item: (_RANK[item.severity], item.code))
    exact = list({item.edit: item for item in findings if item.edit is not None}.values())
    rest = [item for item in findings if item.edit is None and item.severity != "info"]
    lines = ["# fix plan: nothing has been changed", ""]
    if not exact and not rest:
        lines.append("nothing to change")
    for number, item in enumerate(exact, start=1):
        lines += _step(number, item)
    if rest:
        lines += ["", "# no exact edit is known for these; what to do:"]
        lines += [f"- {item.code} {visible(item.message)}: {visible(item.remedy)}" for item in rest]
    return ("\n".join(lines) + "\n").encode("utf-8", errors="replace")


def _step(number: int, item: Finding) -> list[str]:
    place = f"{item.where.file}:{item.where.line}" if item.where.file and item.where.line else item.where.file
    return [
        f"{number}. {visible(item.edit or '')}",
        f"   # {item.code} {item.severity}: {visible(item.message)}"
        + (f" ({visible(place)})" if place else ""),
    ]
