"""Carries out one case: makes the specimen, runs the doctor on it as a user would, keeps what it said."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dflash_doctor import session
from dflash_doctor.errors import DoctorError
from dflash_doctor.evidence import Evidence
from dflash_doctor.faults.base import Specimen
from dflash_doctor.faults.catalog import entry_called, prepare
from dflash_doctor.plan import make_plan
from dflash_doctor.probes.contract import collect_contract
from dflash_doctor.probes.experiments import observe_experiments
from dflash_doctor.records import Cause, TrialRecord
from dflash_doctor.selftest.base import SelftestCase, SelftestResult
from dflash_doctor.settings import Settings

_MAX_PROMPTS = 60
_MAX_TOKENS = 128


def carry_out(case: SelftestCase, *, settings: dict[str, Any] | None = None) -> SelftestResult:
    """Run the doctor on a private copy of the case's pair.

    Args:
        case: what to do to the pair.
        settings: of the run, over those of the case.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dflash-selftest-") as folder:
        work = Path(folder)
        try:
            specimen = prepare(entry_called(case.name), case.pair, work / "specimen", seed=case.seed)
            record = session.run(
                _settings(specimen, work / "run", settings or {}), shims=tuple(specimen.shims)
            ).record
        except DoctorError as error:
            return _errored(case, started, error)
    experiments = record.metrics.experiments
    return _result(
        case,
        specimen,
        verdict=record.verdict,
        diagnosis=record.diagnosis,
        trials=experiments.trials if experiments is not None else (),
        failed=tuple(check.code for check in record.checks if check.verdict == "failed"),
        started=started,
        error=record.incomplete if record.verdict == "errored" else None,
    )


def _errored(case: SelftestCase, started: float, error: DoctorError) -> SelftestResult:
    return SelftestResult(
        case=case,
        detail="",
        verdict="errored",
        named=(),
        codes=(),
        duration_s=round(time.monotonic() - started, 1),
        error=str(error),
    )


def carry_out_on_texts(case: SelftestCase, healthy: Evidence) -> SelftestResult:
    """The same for a defect of the drafter's files, without an engine: on texts that the target wrote before.

    The drafter has no part in what the target writes: texts of the healthy pair are those of the faulty.

    Args:
        case: a fault or control that leaves the target, the traffic and the engine alone.
        healthy: of a run of the healthy pair, with its target-only pass.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dflash-selftest-") as folder:
        work = Path(folder)
        try:
            specimen = prepare(entry_called(case.name), case.pair, work / "specimen", seed=case.seed)
            plan = make_plan(_settings(specimen, work / "run", {}), run_id="selftest")
            evidence = Evidence(
                contract=collect_contract(plan.settings, plan.engine_args, pair=plan.contract),
                target_only=healthy.target_only,
                thinking=healthy.thinking,
                token_texts=healthy.token_texts,
            )
            evidence = observe_experiments(
                plan, evidence, log_path=work / "reference.log", watcher=session.Quiet(), keep=lambda _: None
            )
        except DoctorError as error:
            return _errored(case, started, error)
        judged = session.judge(plan, evidence, incomplete=None)
    failed = tuple(check.code for check in judged.checks if check.verdict == "failed")
    return _result(
        case,
        specimen,
        verdict="failed" if failed else "passed",
        diagnosis=judged.diagnosis,
        trials=judged.metrics.experiments.trials if judged.metrics.experiments else (),
        failed=failed,
        started=started,
    )


def _settings(specimen: Specimen, output: Path, over: dict[str, Any]) -> Settings:
    given: dict[str, Any] = {
        "target": str(specimen.folder / "target"),
        "draft": str(specimen.folder / "draft"),
        "prompts": str(specimen.folder / "prompts.jsonl"),
        "max_prompts": _MAX_PROMPTS,
        "max_tokens": _MAX_TOKENS,
        "output": str(output),
    }
    return Settings(**{**given, **specimen.settings, **over})


def _result(
    case: SelftestCase,
    specimen: Specimen,
    *,
    verdict: str,
    diagnosis: Sequence[Cause],
    trials: Sequence[TrialRecord],
    failed: tuple[str, ...],
    started: float,
    error: str | None = None,
) -> SelftestResult:
    best = diagnosis[0] if diagnosis else None
    proving = [
        trial
        for trial in trials
        if best is not None and trial.cause == best.cause and trial.verdict == "explains"
    ]
    return SelftestResult(
        case=case,
        detail=specimen.detail,
        verdict=verdict,
        named=tuple((cause.cause, cause.confidence) for cause in diagnosis),
        codes=failed,
        proof=proving[0].change if proving else (best.evidence[0] if best and best.evidence else ""),
        has_experiment=bool(proving),
        duration_s=round(time.monotonic() - started, 1),
        error=error,
    )
