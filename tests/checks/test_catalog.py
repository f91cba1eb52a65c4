"""The catalog is complete: pages, codes, causes; and a healthy run fires nothing."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from evidence_factory import make_evidence

from dflash_doctor.checks import catalog
from dflash_doctor.checks.base import Case
from dflash_doctor.checks.catalog import CHECKS, CheckEntry, entry_of, page_of, run_checks
from dflash_doctor.checks.verdict import run_verdict
from dflash_doctor.diagnosis.rank import diagnose
from dflash_doctor.metrics.compute import compute_metrics
from dflash_doctor.records import CheckRecord, Metrics


def healthy_case() -> Case:
    evidence = make_evidence(num_requests=20)
    return Case(
        evidence=evidence, metrics=compute_metrics(evidence), num_speculative_tokens=7, temperature=0.0
    )


@pytest.mark.parametrize("entry", CHECKS, ids=lambda entry: entry.code)
def test_catalog_when_a_check_is_listed_then_it_has_a_page_and_a_judge(entry: CheckEntry) -> None:
    page = page_of(entry)
    for section in ("## What it checks", "## Why it matters", "## Example", "## What to do"):
        assert section in page
    assert re.search(rf"^    {entry.code} ", page, re.MULTILINE), "the example shows a finding"
    assert callable(catalog.load_judge(entry))
    assert re.fullmatch(r"DF\d{3}", entry.code)
    assert entry.family
    assert entry_of(entry.code.lower()) is entry
    assert entry_of(entry.name) is entry


def test_catalog_when_read_then_codes_and_names_are_unique_and_sorted() -> None:
    codes = [entry.code for entry in CHECKS]
    assert codes == sorted(set(codes))
    assert len({entry.name for entry in CHECKS}) == len(CHECKS)


def test_catalog_when_only_pages_are_wanted_then_no_check_is_imported() -> None:
    script = (
        "import sys; from dflash_doctor.checks.catalog import CHECKS, page_of\n"
        "[page_of(entry) for entry in CHECKS]\n"
        "print([m for m in ('numpy', 'msgspec', *(e.module for e in CHECKS)) if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_run_checks_when_the_run_is_healthy_then_all_pass_and_no_cause_is_named() -> None:
    case = healthy_case()
    checks = run_checks(case)
    by_experiment = {"DF404", "DF405", "DF406", "DF407"}
    assert {check.code for check in checks if check.verdict == "skipped"} <= by_experiment
    assert {check.verdict for check in checks if check.code not in by_experiment} == {"passed"}
    assert [finding for check in checks for finding in check.findings] == []
    assert diagnose(checks, case) == ()
    verdict, summary = run_verdict(checks, case.metrics)
    assert verdict == "passed"
    assert summary.startswith("Healthy: 20 of 20 outputs are the target's own; ")


def test_run_checks_when_a_check_raises_then_it_is_errored_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: CheckEntry) -> object:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(catalog, "load_judge", broken)
    checks = run_checks(healthy_case())
    assert {check.verdict for check in checks} == {"errored"}
    assert "ZeroDivisionError: boom" in checks[0].reason
    assert run_verdict(checks, Metrics())[0] == "errored"


def record(code: str, verdict: str) -> CheckRecord:
    return CheckRecord(code=code, name="n", family="f", verdict=verdict, reason="r")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["passed", "skipped"], "passed"),
        (["passed", "failed", "errored", "inconclusive"], "failed"),
        (["passed", "errored", "inconclusive"], "errored"),
        (["passed", "inconclusive"], "inconclusive"),
        (["skipped", "skipped"], "inconclusive"),
        ([], "inconclusive"),
    ],
)
def test_run_verdict_when_checks_disagree_then_the_worst_decides(verdicts: list[str], expected: str) -> None:
    checks = [record(f"DF80{index}", verdict) for index, verdict in enumerate(verdicts)]
    assert run_verdict(checks, Metrics())[0] == expected
