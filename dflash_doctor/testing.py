"""For tests that use the plugin's fixtures: the checks as parameters, and a verdict as pass, fail or skip.

import pytest
from dflash_doctor.testing import assert_check, parametrize_checks

@parametrize_checks("DF3", "DF4")
def test_pair(dflash_run, code, record_property):
    assert_check(dflash_run, code, record_property)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest

from dflash_doctor.checks.catalog import CHECKS

if TYPE_CHECKING:
    from dflash_doctor.records import Finding, RunRecord


def parametrize_checks(*families: str) -> Any:
    """A decorator that runs a test once for each check of these code families (`DF3`), all without any.

    The test gets the code as `code`; ids read `DF301-greedy-output-differs`.
    """
    chosen = [entry for entry in CHECKS if not families or entry.code.startswith(families)]
    if not chosen:
        raise ValueError(f"no check has a code that begins with {' or '.join(families)}")
    return pytest.mark.parametrize(
        "code", [pytest.param(entry.code, id=f"{entry.code}-{entry.name}") for entry in chosen]
    )


class Judged(Protocol):
    """Anything with a run record: `dflash_run`, `dflash_contract`."""

    @property
    def record(self) -> RunRecord:
        """What was judged."""
        ...


def assert_check(run: Judged, code: str) -> None:
    """Pass, fail or skip as the check said.

    A failed check fails with its findings in words, without a traceback. Skipped and inconclusive ones
    are skipped with the reason, an inconclusive one with that word before it. Only DF102 fails then: a
    model that could not be looked at must not pass for a good one.

    Args:
        run: the fixture `dflash_run`, or `dflash_contract` for what needs no engine (DF0, DF1, DF2).
        code: the check's code.
    """
    check = next(item for item in run.record.checks if item.code == code)
    if check.verdict == "passed":
        return
    if check.verdict == "failed":
        pytest.fail("\n".join(map(_finding_text, check.findings)) or check.reason, pytrace=False)
    if check.verdict == "errored":
        pytest.fail(f"{check.code} {check.name}: {check.reason}", pytrace=False)
    if run.record.incomplete is not None:
        pytest.fail(f"{check.reason}; the run stopped early: {run.record.incomplete}", pytrace=False)
    if check.code == "DF102" and check.verdict == "inconclusive":
        # Skipped, a gate on a pair that nobody looked at would be green.
        pytest.fail(f"inconclusive: {check.reason}", pytrace=False)
    before = "inconclusive: " if check.verdict == "inconclusive" else ""
    pytest.skip(before + check.reason)


def _finding_text(finding: Finding) -> str:
    lines = [f"{finding.code} {finding.severity}: {finding.message}"]
    for name, text in (
        ("seen", finding.observed),
        ("expected", finding.expected),
        ("do", finding.remedy),
    ):
        if text:
            lines.append(f"  {name + ':':<10}{text}")
    return "\n".join(lines)
