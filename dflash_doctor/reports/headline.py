"""What a reader needs first: what happened in one sentence, and the one thing to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dflash_doctor.records import Finding, RunRecord

_SEVERITY_ORDER = ("error", "warning", "info")


@dataclass(frozen=True)
class Headline:
    """The first lines of every report.

    Attributes:
        sentence: what happened.
        todo: the one thing to do first.
        finding: what the sentence speaks of, where it is a finding.
    """

    sentence: str
    todo: str
    finding: Finding | None = None


def findings_of(record: RunRecord) -> tuple[Finding, ...]:
    """Every finding of the run: errors, then warnings, then notes, each in the order of the checks."""
    found = [finding for check in record.checks for finding in check.findings]
    return tuple(sorted(found, key=lambda finding: _SEVERITY_ORDER.index(finding.severity)))


def headline(record: RunRecord) -> Headline:
    """The verdict's sentence and what to do about it."""
    findings = findings_of(record)
    if record.verdict == "failed":
        finding = _named(record.summary, findings)
        if finding is None:
            return Headline(record.summary, "read the checks that failed")
        return Headline(_capitalised(finding.message), finding.remedy or "read the finding", finding)
    if record.verdict == "errored":
        return _of_errored(record)
    if record.verdict == "passed":
        return Headline(record.summary, _todo_when_passed(findings))
    undecided = next((check for check in record.checks if check.verdict == "inconclusive"), None)
    if undecided is None:
        return Headline(record.summary, "read why each check was skipped")
    remedy = next((finding.remedy for finding in undecided.findings if finding.remedy), None)
    lacks = f"give {undecided.code} {undecided.name} what it lacks: {undecided.reason}"
    return Headline(record.summary, remedy or lacks)


def _named(summary: str, findings: Iterable[Finding]) -> Finding | None:
    """The error that the summary speaks of, else the first one."""
    errors = [finding for finding in findings if finding.severity == "error"]
    first = errors[0] if errors else None
    return next((finding for finding in errors if summary.startswith(finding.code)), first)


def _of_errored(record: RunRecord) -> Headline:
    """The engine's own three-part message where the run stopped early, else the check that raised."""
    if record.incomplete is None:
        return Headline(record.summary, "report this with the run folder: a check failed at its own work")
    what, *rest = record.incomplete.splitlines() or [record.incomplete]
    remedy = next((line.strip().removeprefix("do:").strip() for line in rest if "do:" in line[:6]), None)
    log = record.artifacts.engine_log
    return Headline(_capitalised(what), remedy or (f"read {log}" if log else "run again"))


def _todo_when_passed(findings: Iterable[Finding]) -> str:
    warnings = [finding for finding in findings if finding.severity == "warning"]
    if not warnings:
        return "Nothing."
    number = "one warning is" if len(warnings) == 1 else f"{len(warnings)} warnings are"
    return f"Nothing must be fixed; {number} worth a look: {warnings[0].remedy or warnings[0].message}"


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
