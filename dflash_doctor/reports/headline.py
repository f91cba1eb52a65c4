"""What a reader needs first: what happened in one sentence, and the one thing to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dflash_doctor.records import Finding, RunRecord

STATIC_FAMILIES = ("DF0", "DF1", "DF2")
"""Code families that judge files, packages and settings: many checks, most of which say that all is well."""

_SEVERITY_ORDER = ("error", "warning", "info")


@dataclass(frozen=True)
class Headline:
    """The first lines of every report.

    Attributes:
        sentence: what happened.
        todo: the one thing to do first.
        seen: what was observed, where it is known.
        finding: what the sentence speaks of, where it is a finding.
    """

    sentence: str
    todo: str
    seen: str | None = None
    finding: Finding | None = None


def findings_of(record: RunRecord) -> tuple[Finding, ...]:
    """Every finding of the run: errors, then warnings, then notes, each in the order of the checks."""
    found = [finding for check in record.checks for finding in check.findings]
    return tuple(sorted(found, key=lambda finding: _SEVERITY_ORDER.index(finding.severity)))


def groups_of(findings: Sequence[Finding]) -> tuple[tuple[Finding, ...], ...]:
    """Findings that say the same of several samples, together; in the order of each group's first."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        same = (finding.code, finding.severity, finding.message, finding.expected, finding.remedy)
        groups.setdefault(same, []).append(finding)
    return tuple(tuple(group) for group in groups.values())


def headline(record: RunRecord) -> Headline:
    """The verdict's sentence and what to do about it."""
    findings = findings_of(record)
    if record.verdict == "failed":
        finding = _named(record.summary, findings)
        if finding is None:
            return Headline(record.summary, "read the checks that failed")
        todo = finding.remedy or "read the finding"
        return Headline(_capitalised(finding.message), todo, finding.observed or None, finding)
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
    """The error that the summary speaks of, else the first one; a warning where only warnings failed."""
    found = list(findings)
    errors = [item for item in found if item.severity == "error"] or [
        item for item in found if item.severity == "warning"
    ]
    first = errors[0] if errors else None
    return next((finding for finding in errors if summary.startswith(finding.code)), first)


def _of_errored(record: RunRecord) -> Headline:
    """The engine's own three-part message where the run stopped early, else the check that raised."""
    if record.incomplete is None:
        return Headline(record.summary, "report this with the run folder: a check failed at its own work")
    what, *rest = record.incomplete.splitlines() or [""]
    log = record.artifacts.engine_log
    remedy = _part(rest, "do:") or (f"read {log}" if log else "run again")
    return Headline(_capitalised(what), remedy, _part(rest, "seen:"))


def _part(lines: Iterable[str], name: str) -> str | None:
    """The part of a three-part message that begins with `name`."""
    found = (line.strip().removeprefix(name).strip() for line in lines if line.strip().startswith(name))
    return next(found, None)


def _todo_when_passed(findings: Iterable[Finding]) -> str:
    warnings = [finding for finding in findings if finding.severity == "warning"]
    if not warnings:
        return "Nothing."
    number = "one warning is" if len(warnings) == 1 else f"{len(warnings)} warnings are"
    return f"Nothing must be fixed; {number} worth a look: {warnings[0].remedy or warnings[0].message}"


def _capitalised(text: str) -> str:
    """A sentence's first letter large; a name such as vLLM stays as its owner writes it."""
    if any(letter.isupper() for letter in text.split(" ", 1)[0][1:]):
        return text
    return text[:1].upper() + text[1:]
