"""Run records for tests, judged from made-up evidence as the session would."""

from __future__ import annotations

from typing import Any

import msgspec
from evidence_factory import make_evidence

from dflash_doctor.checks.base import Case
from dflash_doctor.checks.catalog import run_checks
from dflash_doctor.checks.verdict import run_verdict
from dflash_doctor.diagnosis.rank import diagnose
from dflash_doctor.evidence import Evidence
from dflash_doctor.metrics.compute import compute_metrics
from dflash_doctor.records import (
    SCHEMA_VERSION,
    Artifacts,
    PairRecord,
    PhaseRecord,
    RunRecord,
    ToolRecord,
    WorkloadRecord,
)


def make_record(
    *, evidence: Evidence | None = None, changes: dict[str, Any] | None = None, **made: Any
) -> RunRecord:
    """The record of this evidence, or of `make_evidence(**made)`."""
    evidence = make_evidence(**made) if evidence is None else evidence
    metrics = compute_metrics(evidence)
    case = Case(evidence=evidence, metrics=metrics, num_speculative_tokens=7, temperature=0.0)
    checks = run_checks(case)
    verdict, summary = run_verdict(checks, metrics)
    record = RunRecord(
        schema_version=SCHEMA_VERSION,
        tool=ToolRecord(version="0.0"),
        run_id="20260101-000000-abcd",
        started_at="2026-01-01T00:00:00+00:00",
        duration_s=12.5,
        verdict=verdict,
        summary=summary,
        pair=PairRecord(target="models/target", draft="models/draft", method="dflash"),
        engine=evidence.facts,
        level=evidence.level,
        environment={"python": "3.11.7", "packages": {"vllm": "0.32.0"}},
        settings={"target": "models/target", "max_tokens": 256, "prompts": None},
        setting_origins={"target": "command line"},
        workload=WorkloadRecord(
            source="prompts.jsonl", num_prompts=8, sha256="0" * 64, categories={"math": 4}
        ),
        metrics=metrics,
        checks=checks,
        diagnosis=diagnose(checks, case),
        phases=(PhaseRecord(name="loading", duration_s=1.0, completed=True, detail="vllm"),),
        artifacts=Artifacts(report="report.html", traces="traces.jsonl"),
    )
    return msgspec.structs.replace(record, **(changes or {}))
