"""Carries out one case: makes the specimen, runs the doctor on it as a user would, keeps what it said."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from dflash_doctor import session
from dflash_doctor.errors import DoctorError
from dflash_doctor.faults.base import Specimen
from dflash_doctor.faults.catalog import entry_called, prepare
from dflash_doctor.records import RunRecord
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
            return SelftestResult(
                case=case,
                detail="",
                verdict="errored",
                named=(),
                codes=(),
                duration_s=round(time.monotonic() - started, 1),
                error=str(error),
            )
    return _result(case, specimen, record, time.monotonic() - started)


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


def _result(case: SelftestCase, specimen: Specimen, record: RunRecord, duration_s: float) -> SelftestResult:
    best = record.diagnosis[0] if record.diagnosis else None
    experiments = record.metrics.experiments
    trials = experiments.trials if experiments is not None else ()
    proving = [
        trial
        for trial in trials
        if best is not None and trial.cause == best.cause and trial.verdict == "explains"
    ]
    return SelftestResult(
        case=case,
        detail=specimen.detail,
        verdict=record.verdict,
        named=tuple((cause.cause, cause.confidence) for cause in record.diagnosis),
        codes=tuple(check.code for check in record.checks if check.verdict == "failed"),
        proof=proving[0].change if proving else (best.evidence[0] if best and best.evidence else ""),
        has_experiment=bool(proving),
        duration_s=round(duration_s, 1),
        error=record.incomplete if record.verdict == "errored" else None,
    )
