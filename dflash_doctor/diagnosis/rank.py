"""From findings to ranked causes.

A check names the causes that its finding speaks for, likeliest first. How much a finding can carry depends
on what it saw: an experiment proves a cause, some observations *are* the cause (K beyond the block), others
only look like several, and of those the experiments rule out what they can. Nothing is named from a label
alone, and nothing is named on a run in which every check passed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from dflash_doctor.checks.base import Case
from dflash_doctor.diagnosis.catalog import causes
from dflash_doctor.records import Cause, CheckRecord, Finding

_DIRECT = {
    ("DF301", "lossy-acceptance-configured"),
    ("DF301", "verification-not-enforced"),
    ("DF301", "stop-handling-wrong"),
    ("DF401", "speculation-inactive"),
    ("DF801", "counters-inconsistent"),
    ("DF802", "degenerate-output"),
}
"""The finding observes the cause itself."""

_EXPERIMENTS = ("DF404", "DF405", "DF406", "DF407", "DF408")
"""Findings that rest on an experiment or see the defect itself; their first cause explains most."""
_STATIC_FAMILIES = ("DF0", "DF1", "DF2")
"""What files and settings say is seen, not inferred: the first cause of such a finding is direct."""

_PROVEN_CONFIDENCE = 0.95
_DIRECT_CONFIDENCE = 0.9
_SUSPECT_CONFIDENCE = 0.4
_LATER_SUSPECT_FACTOR = 0.6
"""Each further suspect of one finding is this much less likely than the one before it."""


def diagnose(checks: Sequence[CheckRecord], case: Case) -> tuple[Cause, ...]:
    """Causes that failed checks speak for, best first; empty when none failed.

    Args:
        checks: what every check said.
        case: what they looked at; what it holds against a cause is listed with it.
    """
    found: dict[str, list[tuple[float, Finding]]] = defaultdict(list)
    for check in checks:
        if check.verdict != "failed":
            continue
        for finding in check.findings:
            if finding.severity != "error":
                continue
            for rank, name in enumerate(finding.causes):
                found[name].append((_confidence(finding.code, name, rank), finding))
    refuted = _ruled_out(case)
    ranked = [
        _cause(name, reasons, case)
        for name, reasons in found.items()
        if name not in refuted or max(weight for weight, _ in reasons) >= _DIRECT_CONFIDENCE
    ]
    if not ranked and found:
        ranked = _unexplained(case, next(iter(found.values())))
    explained = {
        name: max(finding.numbers.get("explained", 0.0) for _, finding in reasons)
        for name, reasons in found.items()
    }
    # Of causes that are equally sure the one that explains more of the loss comes first.
    ranked.sort(key=lambda cause: (-cause.confidence, -explained.get(cause.cause, 0.0)))
    return tuple(ranked)


def _ruled_out(case: Case) -> frozenset[str]:
    """Causes of which every experiment left things as they were or made them worse."""
    experiments = case.metrics.experiments
    trials = experiments.trials if experiments is not None else ()
    judged = [trial for trial in trials if trial.verdict != "failed"]
    alive = {trial.cause for trial in judged if trial.verdict not in ("no effect", "worse")}
    return frozenset(trial.cause for trial in judged if trial.kind == "intervention") - alive


_UNEXPLAINED = ("undertrained-drafter", "target-changed", "distribution-shift")


def _unexplained(case: Case, reasons: list[tuple[float, Finding]]) -> list[Cause]:
    """What remains where every suspect was tried and none fits: causes that no setting can undo."""
    experiments = case.metrics.experiments
    assert experiments is not None, "something was ruled out"
    count = sum(trial.verdict != "failed" for trial in experiments.trials)
    told = f"no known cause fits: {count} experiments changed nothing for the better"
    finding = reasons[0][1]
    return [
        Cause(
            cause=name,
            confidence=round(_SUSPECT_CONFIDENCE * _LATER_SUSPECT_FACTOR**rank, 2),
            kind=causes()[name].kind,
            summary=causes()[name].summary + " (what remains, not proven)",
            evidence=(f"{finding.code}: {finding.observed}", told),
            remedy="try the drafter's own benchmark prompts, then the target that it was trained for",
            codes=(finding.code,),
            references=causes()[name].references,
        )
        for rank, name in enumerate(_UNEXPLAINED)
    ]


def _confidence(code: str, name: str, rank: int) -> float:
    if code in _EXPERIMENTS:
        return float(_PROVEN_CONFIDENCE * _LATER_SUSPECT_FACTOR**rank)
    seen_in_files = code.startswith(_STATIC_FAMILIES) and rank == 0
    base = _DIRECT_CONFIDENCE if seen_in_files or (code, name) in _DIRECT else _SUSPECT_CONFIDENCE
    return float(base * _LATER_SUSPECT_FACTOR**rank)


def _cause(name: str, reasons: list[tuple[float, Finding]], case: Case) -> Cause:
    entry = causes()[name]
    confidence, strongest = max(reasons, key=lambda item: item[0])
    suspected = confidence < _DIRECT_CONFIDENCE * _LATER_SUSPECT_FACTOR
    return Cause(
        cause=name,
        confidence=round(confidence, 2),
        kind=entry.kind,
        summary=entry.summary + (" (suspected from the pattern, not proven)" if suspected else ""),
        evidence=tuple(dict.fromkeys(f"{item.code}: {item.observed}" for _, item in reasons)),
        against=_against(name, case),
        remedy=strongest.remedy,
        codes=tuple(dict.fromkeys(item.code for _, item in reasons)),
        references=entry.references,
    )


def _against(name: str, case: Case) -> tuple[str, ...]:
    """Observations that speak against a cause."""
    facts, metrics = case.evidence.facts, case.metrics
    against = []
    if facts is not None:
        if name == "target-head-not-shared" and facts.lm_head_shared:
            against.append("the live drafter shares the target's head")
        if name == "draft-dtype-overflow" and facts.dtype in ("bfloat16", "float32"):
            against.append(f"the engine runs in {facts.dtype}, whose range is that of float32")
    segments = metrics.by_segment
    if name == "thinking-mode-mismatch" and segments and "thinking" not in segments:
        against.append("no draft was made inside a thinking block")
    return tuple(against)
