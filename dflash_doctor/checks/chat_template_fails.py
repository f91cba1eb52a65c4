"""A chat template cannot be rendered

## What it checks

The chat templates of target and drafter render a set of conversations in a sandbox, as Transformers
renders them, with limits on time, memory and output. It is an error when the target's template is not
valid, fails on a single user message, does not stop, or reaches for what a template may not touch; the
same is a warning for the drafter's, which no engine renders. A template that refuses some conversations
(a system message, tools) with a message of its own is in order.

## Why it matters

A template that fails is a server that starts well and answers every chat request with an error; one that
loops takes a core for ever, in the process that serves everyone else. And where a template does not
render, nothing can be said of the prompts that the drafter will see.

## Example

    DF204 the target's chat template is not valid
      seen:     chat_template.jinja: Unexpected end of template (line 12)
      expected: every usual conversation renders
      do:       put right the template, or take it from the original checkpoint

## What to do

Take `chat_template.jinja` and `tokenizer_config.json` from the original checkpoint again, or put right the
line that is named. A template that was refused as unsafe should not be served at all. A base model without
any template can only be given raw text.
"""

from __future__ import annotations

from collections.abc import Sequence

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.quoted_text import quoted, shown
from dflash_doctor.contract.templates import (
    PLAIN_CASE,
    FailureKind,
    Role,
    TemplateComparison,
    TemplateFacts,
    TemplateFailure,
)
from dflash_doctor.records import Finding, Severity, Where

_WORDS: dict[FailureKind, str] = {
    "unreadable": "cannot be read",
    "syntax": "is not valid",
    "refused": "refuses a single user message",
    "error": "fails",
    "time-limit": "does not stop",
    "memory-limit": "takes more memory than it may",
    "output-too-large": "writes more than it may",
    "unsafe": "reaches for what a template may not touch",
}
_NAMES: dict[Role, str] = {"target": "target", "draft": "drafter"}
_BY_CONVERSATION: tuple[FailureKind, ...] = ("refused", "error")
"""Kinds that weigh less where the plain conversation renders."""


def judge(case: Case) -> Outcome:
    """Look at what could not be rendered."""
    contract = case.evidence.contract
    if contract is None or contract.templates is None:
        return skipped("not checked: nobody looked at the chat templates")
    seen = contract.templates
    if seen.problem is not None:
        return settled((), compared=(), unchecked=[f"no chat template could be rendered ({seen.problem})"])
    findings: list[Finding] = []
    compared: list[str] = []
    unchecked: list[str] = []
    sides: tuple[tuple[Role, TemplateFacts | None], ...] = (("target", seen.target), ("draft", seen.draft))
    for role, facts in sides:
        if facts is None:
            continue
        failures = [item for item in seen.failures if item.role == role]
        if facts.file is None:
            unchecked.append(f"the {_NAMES[role]} has no chat template")
            continue
        found = _findings(role, facts, failures)
        findings += found
        if not found:
            compared.append(_in_order(role, seen, failures))
    return settled(findings, compared=compared, unchecked=unchecked)


def _findings(role: Role, facts: TemplateFacts, failures: Sequence[TemplateFailure]) -> list[Finding]:
    kinds = dict.fromkeys(item.kind for item in failures)
    found = [_finding(role, facts, [item for item in failures if item.kind == kind]) for kind in kinds]
    return [finding for finding in found if finding is not None]


def _finding(role: Role, facts: TemplateFacts, failures: Sequence[TemplateFailure]) -> Finding | None:
    """What failures of one kind amount to; `None` where the template is in order all the same."""
    first = failures[0]
    cases = list(dict.fromkeys(item.case for item in failures if item.case))
    is_basic = any(item.case in ("", PLAIN_CASE) for item in failures)
    if first.kind == "missing" or (first.kind == "refused" and not is_basic):
        return None
    weighs_less = first.kind in _BY_CONVERSATION and not is_basic
    words = _WORDS[first.kind] + (f" on {cases[0]}" if weighs_less else "")
    observed = shown(first.detail, max_characters=200)
    if len(cases) > 1:
        observed += (
            f"; in {len(cases)} conversations ({cases[0]}, {cases[1]}{', …' if len(cases) > 2 else ''})"
        )
    return Finding(
        code="DF204",
        severity=_severity(role, weighs_less=weighs_less),
        message=f"the {_NAMES[role]}'s chat template {words}",
        observed=f"{facts.file}: {observed.removeprefix(f'{facts.file}: ')}",
        expected="every usual conversation renders",
        remedy="put right the template, or take it from the original checkpoint",
        where=Where(file=facts.file, field=facts.field),
        numbers={"num_conversations": len(cases)} if cases else {},
    )


def _severity(role: Role, *, weighs_less: bool) -> Severity:
    if role == "target":
        return "warning" if weighs_less else "error"
    return "info" if weighs_less else "warning"


def _in_order(role: Role, seen: TemplateComparison, failures: Sequence[TemplateFailure]) -> str:
    words = f"the {_NAMES[role]}'s chat template renders"
    if role == "draft" and seen.is_identical:
        return "the drafter's chat template is the same text"
    refused = list(dict.fromkeys(item.case for item in failures if item.kind == "refused"))
    if not refused:
        return words
    reason = next(item.detail for item in failures if item.kind == "refused")
    return f"{words}; it refuses {', '.join(refused)} ({quoted(reason)})"
