"""The exit code of a record: one rule for every command that judges."""

from __future__ import annotations

from dflash_doctor.checks.base import NOT_ASKED
from dflash_doctor.checks.catalog import entry_of
from dflash_doctor.errors import EXIT_FINDINGS, EXIT_NO_VERDICT, EXIT_PASSED
from dflash_doctor.records import CheckRecord, RunRecord

READS_THE_PAIR = "DF102"
"""The check that is inconclusive where a named model could not be looked at at all."""


def is_undecided(check: CheckRecord) -> bool:
    """Whether a check leaves its question open.

    A static one that does not apply to the pair does not, nor one whose experiments nobody asked for.
    """
    if check.verdict == "inconclusive":
        return True
    if check.verdict == "skipped" and check.reason in NOT_ASKED:
        return False
    static = (entry := entry_of(check.code)) is not None and entry.static
    return check.verdict == "skipped" and (not static or check.reason.startswith("not checked"))


def exit_code(record: RunRecord, *, strict: bool) -> int:
    """0 passed, 1 findings, 3 no verdict; `strict` lets nothing undecided count as passed.

    A run whose target or drafter could not be looked at has no verdict, however many other checks passed.
    """
    if record.verdict == "failed":
        return EXIT_FINDINGS
    if record.verdict == "errored":
        return EXIT_NO_VERDICT
    if any(check.code == READS_THE_PAIR and check.verdict == "inconclusive" for check in record.checks):
        return EXIT_NO_VERDICT
    undecided = any(is_undecided(check) for check in record.checks)
    if strict and (record.verdict != "passed" or undecided):
        return EXIT_NO_VERDICT
    judged = any(check.verdict in ("passed", "failed") for check in record.checks)
    return EXIT_PASSED if judged else EXIT_NO_VERDICT
