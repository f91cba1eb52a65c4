"""Which check finds which failure mode before anything starts: the source of a table in CONTRIBUTING."""

from __future__ import annotations

from collections import defaultdict

from test_pair_checks import FAULTS

from dflash_doctor.checks.catalog import entry_of
from dflash_doctor.environment.known_bad import known_bad_rows

STATIC_MODES = (
    "A1", "A2", "A3", "A8", "A9", "A13", "B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "C1", "C2", "C3",
    "C4", "C5", "C6", "C7", "C8", "C9", "C10", "C11", "C13", "C14", "C15", "D1", "D2", "D3", "D5", "E6", "E9",
    "E10", "F1", "F4", "G1", "G4", "I7",
)  # fmt: skip
"""Failure modes of the field that leave a sign in files, packages or settings."""
ELSEWHERE = {"B8": {"DF201", "DF202"}, "E6": {"DF130"}, "G1": {"DF205"}, "I7": {"DF001", "DF002", "DF006"}}
"""Found by checks whose faults are tested in other places than the table of pair faults."""
NOT_COVERED: dict[str, str] = {}
"""Mode -> why no check can find it."""


def coverage() -> dict[str, set[str]]:
    """Mode -> codes of the checks that find it."""
    found: dict[str, set[str]] = defaultdict(set)
    for fault in FAULTS:
        for mode in fault.modes:
            found[mode].add(fault.code)
    for row in known_bad_rows():
        for mode in row.failure_modes:
            found[mode].add("DF005")
    for mode, codes in ELSEWHERE.items():
        found[mode] |= codes
    return found


def table() -> str:
    """The rows as Markdown."""
    found = coverage()
    lines = ["| failure mode | found before start by |", "|---|---|"]
    for mode in STATIC_MODES:
        names = [
            f"{code} {entry.name}" for code in sorted(found[mode]) if (entry := entry_of(code)) is not None
        ]
        lines.append(f"| {mode} | {', '.join(names) or 'not covered: ' + NOT_COVERED[mode]} |")
    return "\n".join(lines)
