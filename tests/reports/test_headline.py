"""The first lines say what happened and the one thing to do, whatever the verdict."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from record_factory import make_record

from dflash_doctor.records import CheckRecord, Finding, RunRecord
from dflash_doctor.reports.headline import findings_of, groups_of, headline


def finding(code: str, severity: str = "error", **changes: Any) -> Finding:
    fields = {"message": f"{code} is wrong", "remedy": f"mend {code}", "observed": "seen"}
    return Finding(code=code, severity=severity, **(fields | changes))  # type: ignore[arg-type]


def check(code: str, verdict: str, *findings: Finding, reason: str = "why") -> CheckRecord:
    return CheckRecord(
        code=code,
        name="bad-thing",
        family="f",
        verdict=verdict,
        reason=reason,
        findings=findings,  # type: ignore[arg-type]
    )


def record_of(verdict: str, *checks: CheckRecord, **changes: Any) -> RunRecord:
    return make_record(changes={"verdict": verdict, "checks": checks, **changes})


def test_headline_when_failed_then_is_the_finding_that_the_summary_names() -> None:
    record = record_of(
        "failed",
        check("DF301", "failed", finding("DF301")),
        check("DF402", "failed", finding("DF402")),
        summary="DF402: DF402 is wrong. Do: mend DF402.",
    )
    first = headline(record)
    assert (first.sentence, first.todo) == ("DF402 is wrong", "mend DF402")
    assert first.finding is not None
    assert first.finding.code == "DF402"


def test_headline_when_failed_without_a_finding_then_is_the_summary() -> None:
    first = headline(record_of("failed", check("DF301", "failed"), summary="DF301 bad-thing: why"))
    assert first.sentence == "DF301 bad-thing: why"
    assert first.todo == "read the checks that failed"


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ((), "Nothing."),
        ((finding("DF1", "info"),), "Nothing."),
        ((finding("DF1", "warning"),), "Nothing must be fixed; one warning is worth a look: mend DF1"),
        (
            (finding("DF1", "warning"), finding("DF2", "warning")),
            "Nothing must be fixed; 2 warnings are worth a look: mend DF1",
        ),
    ],
)
def test_headline_when_passed_then_says_that_nothing_must_be_done(
    findings: tuple[Finding, ...], expected: str
) -> None:
    first = headline(record_of("passed", check("DF1", "passed", *findings), summary="Healthy."))
    assert (first.sentence, first.todo) == ("Healthy.", expected)


def test_headline_when_inconclusive_then_says_what_is_lacking() -> None:
    undecided = check("DF402", "inconclusive", reason="only 12 steps; 50 are needed")
    assert headline(record_of("inconclusive", undecided)).todo == (
        "give DF402 bad-thing what it lacks: only 12 steps; 50 are needed"
    )
    with_remedy = msgspec.structs.replace(undecided, findings=(finding("DF402", "info"),))
    assert headline(record_of("inconclusive", with_remedy)).todo == "mend DF402"
    nothing = record_of("inconclusive", check("DF402", "skipped"))
    assert headline(nothing).todo == "read why each check was skipped"


def test_headline_when_the_engine_died_then_takes_its_own_three_parts() -> None:
    reason = "the engine died\n  seen: exit code -9\n  do:   use fewer prompts"
    first = headline(record_of("errored", incomplete=reason))
    assert (first.sentence, first.todo, first.seen) == (
        "The engine died",
        "use fewer prompts",
        "exit code -9",
    )
    artifacts = msgspec.structs.replace(make_record().artifacts, engine_log="engine.log")
    short = record_of("errored", incomplete="interrupted by the user", artifacts=artifacts)
    assert headline(short).todo == "read engine.log"
    assert headline(record_of("errored", incomplete="interrupted by the user")).todo == "run again"
    assert headline(record_of("errored", incomplete="")).sentence == ""


def test_headline_when_a_check_raised_then_asks_for_a_report() -> None:
    broken = check("DF402", "errored", reason="the check itself failed")
    assert "report this" in headline(record_of("errored", broken, incomplete=None)).todo


def test_findings_of_when_severities_differ_then_errors_come_first() -> None:
    found = findings_of(
        record_of(
            "failed",
            check("DF1", "passed", finding("DF1", "info"), finding("DF1", "warning")),
            check("DF2", "failed", finding("DF2")),
        )
    )
    assert [item.severity for item in found] == ["error", "warning", "info"]


def test_groups_of_when_findings_say_the_same_then_joins_them() -> None:
    one, two, other = finding("DF1", observed="a"), finding("DF1", observed="b"), finding("DF2")
    assert groups_of((one, other, two)) == ((one, two), (other,))
