"""A chat template does not render

## What it checks

Both templates are rendered over conversations of every kind (system message, several turns, tools,
reasoning in the history, empty and strange content), in a sandbox of their own with limits on time, memory
and output. Syntax errors, endless loops, attempts to leave the sandbox and refusals are told apart.

## Why it matters

The engine renders with the target's template. A template that fails turns requests into errors 400; one
that loops holds the server. That some templates refuse a system message or tools by design is a note.

## Example

    DF204 the target's chat template does not compile
      observed: line 12: Encountered unknown tag 'endfor'

## What to do

Restore the template from the original release.
"""

from __future__ import annotations

from collections.abc import Sequence

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.contract.templates import TemplateComparison, TemplateFacts, TemplateFailure
from dflash_doctor.records import Finding, Where

_MESSAGES = {
    "syntax": "the {role}'s chat template does not compile",
    "refused": "the {role}'s chat template refuses some conversations",
    "error": "the {role}'s chat template fails on some conversations",
    "unsafe": "the {role}'s chat template reaches for what no template should",
    "time-limit": "the {role}'s chat template does not end",
    "output-too-large": "the {role}'s chat template writes without end",
    "crashed": "the {role}'s chat template ends the process that renders it",
}


def judge(case: Case) -> Outcome:
    """Judge what did not render."""
    contract = case.evidence.contract
    if contract is None or contract.templates is None:
        return skipped("not checked: the chat templates were not read")
    found = contract.templates
    if found.target is None:
        return skipped("not checked: the target brings no chat template")
    findings = []
    compared = []
    for role, facts in (("target", found.target), ("drafter", found.draft)):
        if facts is None:
            continue
        if facts.problem is not None:
            findings.append(_unreadable(role, facts))
            continue
        failures = _of(found, role)
        findings += _findings(role, facts, failures)
        compared.append(f"the {role}'s template renders" + ("" if not failures else " most conversations"))
    return settled(findings, compared=compared)


def _of(found: TemplateComparison, role: str) -> list[TemplateFailure]:
    return [item for item in found.failures if item.role == ("target" if role == "target" else "draft")]


def _findings(role: str, facts: TemplateFacts, failures: Sequence[TemplateFailure]) -> list[Finding]:
    """One finding for each way of failing."""
    found = []
    for kind in dict.fromkeys(item.kind for item in failures):
        same = [item for item in failures if item.kind == kind]
        by_design = kind == "refused"
        severity = "info" if by_design else "error" if role == "target" else "warning"
        where = (
            "every conversation" if kind == "syntax" else f"{len(same)} conversations, first {same[0].case}"
        )
        found.append(
            Finding(
                code="DF204",
                severity=severity,  # type: ignore[arg-type]
                message=_MESSAGES[kind].format(role=role),
                observed=f"{where}: {same[0].detail}",
                expected="a text for every conversation" if not by_design else "a refusal where it is meant",
                remedy="nothing, if that is the release's own rule"
                if by_design
                else "restore the template from the original release",
                where=Where(file=facts.file, field=facts.field),
                causes=() if by_design else ("chat-template-mismatch",),
            )
        )
    return found


def _unreadable(role: str, facts: TemplateFacts) -> Finding:
    return Finding(
        code="DF204",
        severity="error" if role == "target" else "warning",
        message=f"the {role}'s chat template cannot be read",
        observed=facts.problem or "",
        expected="a Jinja template",
        remedy="restore the template from the original release",
        where=Where(file=facts.file, field=facts.field),
        causes=("chat-template-mismatch",),
    )
