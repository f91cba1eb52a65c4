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
    Estimate,
    ExperimentRecord,
    PairRecord,
    PhaseRecord,
    ReferenceRecord,
    RunRecord,
    ToolRecord,
    TrialRecord,
    TrialVerdict,
    WorkloadRecord,
)


def make_record(
    *,
    evidence: Evidence | None = None,
    experiments: ExperimentRecord | None = None,
    changes: dict[str, Any] | None = None,
    **made: Any,
) -> RunRecord:
    """The record of this evidence, or of `make_evidence(**made)`."""
    evidence = make_evidence(**made) if evidence is None else evidence
    metrics = msgspec.structs.replace(compute_metrics(evidence), experiments=experiments)
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


def estimate(value: float | None, width: float = 0.05) -> Estimate:
    """A number over 20 texts; without an interval where there is no number."""
    if value is None:
        return Estimate(value=None)
    return Estimate(value=value, low=value - width, high=value + width, num_requests=20)


def make_trial(
    cause: str = "target-layer-ids-shifted",
    verdict: TrialVerdict = "explains",
    *,
    before: float | None = 3.0,
    after: float | None = 4.0,
    effect: float | None = -0.25,
    **changes: Any,
) -> TrialRecord:
    """A trial that shifts the taps, in tokens per step and change of steps unless `changes` say otherwise."""
    trial = TrialRecord(
        name=cause,
        kind="intervention",
        cause=cause,
        change="target_layer_ids [2, 4] -> [1, 3]",
        measure="verify-steps",
        before=estimate(before),
        after=estimate(after),
        effect=estimate(effect),
        verdict=verdict,
        confirmed=verdict == "explains",
        remedy="set target_layer_ids = [1, 3]" if verdict == "explains" else "",
    )
    return msgspec.structs.replace(trial, **changes)


def make_reference(**changes: Any) -> ReferenceRecord:
    """A reference that accepts more than `make_evidence()`'s engine."""
    metrics = compute_metrics(make_evidence(accept=0.9))
    assert metrics.overall is not None
    reference = ReferenceRecord(
        reader="vllm",
        device="cpu",
        dtype="float32",
        overall=metrics.overall,
        by_category=metrics.by_category,
        by_position=metrics.by_position,
        by_context=metrics.by_context,
        by_segment=metrics.by_segment,
        engine_excess_steps=estimate(0.2),
        equal_drafts=estimate(0.75),
        target_agreement=estimate(0.95),
        shuffled_excess_steps=estimate(1.5),
    )
    return msgspec.structs.replace(reference, **changes)


def with_experiments(record: RunRecord, experiments: ExperimentRecord) -> RunRecord:
    """The record with experiments that no check has judged: for names that no catalog has."""
    metrics = msgspec.structs.replace(record.metrics, experiments=experiments)
    return msgspec.structs.replace(record, metrics=metrics)


def make_experiments(**changes: Any) -> ExperimentRecord:
    """One trial of each verdict; two causes are ruled out, one of them by its second trial."""
    experiments = ExperimentRecord(
        reference=make_reference(),
        trials=(
            make_trial(),
            make_trial("rotary-theta", "worse", effect=1.5, change="rope_theta 1 -> 2"),
            make_trial("rotary-theta", "no effect", effect=0.01, change="rope_theta 1 -> 3"),
            make_trial("causal-flag", "undecided", effect=-0.03, change="bidirectional -> causal"),
            make_trial(
                "draft-context-key-norm",
                "no effect",
                measure="equal-drafts",
                before=0.5,
                after=0.501,
                effect=0.001,
                change="keys with layer 0's norm",
            ),
            make_trial("mask-token-wrong", "helps a little", effect=-0.01, change="mask_token_id 3 -> 0"),
            make_trial("block-layout", "failed", effect=None, change="one slot less", failed="out of memory"),
        ),
        not_tried=("rotary-layout: the config has no rotary settings",),
        budget_s=300.0,
        spent_s=26.5,
        stopped="everything was tried",
    )
    return msgspec.structs.replace(experiments, **changes)
