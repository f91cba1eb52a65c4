"""What a check is: a pure function from evidence to a verdict.

One file per check. The module's docstring is its page (`dflash-doctor explain CODE`): first line the
title, then the sections *What it checks*, *Why it matters*, *Example*, *What to do*. The module has one
function `judge(case)`; its code and name stand in the catalog. A check imports no engine, no torch and
opens no file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import Finding, Metrics, Verdict


class CheckLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds in force; each is a setting."""

    min_acceptance_length: float = 1.1
    """At or below this the drafter does not work: fewer than one accepted token per ten steps."""
    min_steps_for_verdict: int = 50
    """Fewer verify steps than this cannot carry a verdict about rates."""
    degenerate_repeat_run: int = 32
    """This many equal tokens in a row void a sample."""
    degenerate_distinct_bigram_rate: float = 0.2
    """A longer answer with fewer distinct bigrams than this share is void."""
    fail_on: str = "error"
    """Mildest severity that fails a check: `error`, or `warning`."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a check may look at."""

    evidence: Evidence
    metrics: Metrics
    num_speculative_tokens: int | None
    temperature: float
    limits: CheckLimits = msgspec.field(default_factory=CheckLimits)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict with its reason and findings."""

    verdict: Verdict
    reason: str
    findings: tuple[Finding, ...] = ()


NO_EXPERIMENTS = "no experiments were made"
NOT_ASKED = frozenset({NO_EXPERIMENTS, "experiments are switched off", "the engine was not asked otherwise"})
"""Reasons of a skipped check that leave nothing open: its question was not put."""


class Judge(Protocol):
    """The one function of a check module."""

    def __call__(self, case: Case) -> Outcome: ...


def passed(reason: str, findings: Iterable[Finding] = ()) -> Outcome:
    """All is well, and what was seen; findings may be notes and warnings."""
    return Outcome(verdict="passed", reason=reason, findings=tuple(findings))


def failed(reason: str, findings: Iterable[Finding]) -> Outcome:
    """Something is wrong."""
    return Outcome(verdict="failed", reason=reason, findings=tuple(findings))


def skipped(reason: str) -> Outcome:
    """Cannot be asked of this run, and why."""
    return Outcome(verdict="skipped", reason=reason)


def settled(
    findings: Iterable[Finding], *, compared: Iterable[str], unchecked: Iterable[str] = ()
) -> Outcome:
    """The verdict of a static check from what it found, what it compared and what it could not look at.

    Failed with an error among the findings; passed where something was compared or found; else skipped: a
    check that looked at nothing says so, even where it leaves a note. What could not be looked at is always
    said, as `not checked`: missing metadata never counts as compatible.
    """
    found, seen, open_ = tuple(findings), list(compared), list(unchecked)
    rest = f"not checked: {'; '.join(open_)}" if open_ else ""
    errors = [finding.message for finding in found if finding.severity == "error"]
    if errors:
        return Outcome(verdict="failed", reason="; ".join(dict.fromkeys(errors)), findings=found)
    if not seen and (rest or not found):
        return Outcome(verdict="skipped", reason=rest or "not checked: nothing to compare", findings=found)
    seen = seen or list(dict.fromkeys(finding.message for finding in found))
    return passed("; ".join([*seen, rest] if rest else seen), found)


def inconclusive(reason: str, findings: Iterable[Finding] = ()) -> Outcome:
    """Asked, and the data does not decide; `reason` says how much more would."""
    return Outcome(verdict="inconclusive", reason=reason, findings=tuple(findings))
