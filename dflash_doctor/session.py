"""Runs one diagnosis from settings to a run record on disk. CLI and pytest plugin are fronts over this.

    settings -> plan -> engines and probes -> evidence -> metrics -> checks -> diagnosis -> record, reports

Whatever happens after the plan stands (an engine crash, Ctrl-C), the record is written with what was
learnt and says what is missing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from dflash_doctor import __version__, runs
from dflash_doctor.checks.base import Case, CheckLimits
from dflash_doctor.checks.catalog import run_checks
from dflash_doctor.checks.verdict import run_verdict
from dflash_doctor.diagnosis.rank import diagnose
from dflash_doctor.engines.base import Shim
from dflash_doctor.environment.snapshot import environment_snapshot
from dflash_doctor.errors import DoctorError, EngineMissingError, UsageError
from dflash_doctor.evidence import Evidence
from dflash_doctor.metrics.compute import compute_metrics
from dflash_doctor.plan import Plan, make_plan
from dflash_doctor.probes.collect import Collected, Collector
from dflash_doctor.records import (
    SCHEMA_VERSION,
    Artifacts,
    CheckRecord,
    Metrics,
    PhaseRecord,
    RunRecord,
    ToolRecord,
    Verdict,
)
from dflash_doctor.reports.build import write_reports
from dflash_doctor.settings import Settings


class Listener(Protocol):
    """Told how a run goes; see `Quiet`."""

    def phase(self, name: str, detail: str = "") -> None:
        """A new stretch of work begins."""

    def progress(self, done: int, total: int) -> None:
        """Requests done, requests in all."""

    def trying(self, what: str) -> None:
        """What is being tried within the phase."""

    def note(self, text: str) -> None:
        """Something the user should know now."""


class Quiet:
    """A listener that says nothing."""

    def phase(self, name: str, detail: str = "") -> None:
        """Say nothing."""

    def progress(self, done: int, total: int) -> None:
        """Say nothing."""

    def trying(self, what: str) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""


@dataclass(frozen=True)
class RunResult:
    """A finished run: its record, the folder it lies in, and the evidence behind it."""

    record: RunRecord
    folder: Path
    evidence: Evidence
    missing_engine: EngineMissingError | None = None
    """Why only the static checks were run; `None` where the engine was there."""


def run(
    settings: Settings,
    *,
    listener: Listener | None = None,
    origins: Mapping[str, str] | None = None,
    shims: tuple[Shim, ...] = (),
) -> RunResult:
    """Run the pair, judge it, write the run folder. Without its engine the static checks are still run.

    Args:
        settings: what to run.
        listener: told about progress.
        origins: where each setting came from, kept in the record.
        shims: defects to put on the engine, for the doctor's own test.

    Raises:
        UsageError: the settings cannot be run; nothing is written.
        KeyboardInterrupt: the user interrupted; the record is written, and the message says where.
    """
    heard = _Stopwatch(listener or Quiet())
    heard.phase("planning")
    plan = make_plan(settings, run_id=_new_run_id(), shims=shims)
    folder = runs.prepare_folder(plan.folder)
    started_at = datetime.now(UTC)
    log_path = folder / runs.ENGINE_LOG_NAME
    log_path.unlink(missing_ok=True)  # of an earlier run into the same folder
    collector = Collector(plan, log_path=log_path, watcher=heard)
    incomplete: str | None = None
    interrupted = False
    missing: EngineMissingError | None = None
    try:
        collector.collect()
    except UsageError:
        _discard(folder, own=settings.output is None)
        raise
    except EngineMissingError as error:
        incomplete, missing = str(error), error
    except DoctorError as error:
        incomplete = str(error)
    except KeyboardInterrupt:
        incomplete, interrupted = "interrupted by the user", True
    heard.finish(completed=incomplete is None)
    heard.phase("judging")
    collected = collector.collected
    judged = judge(plan, collected.evidence, incomplete=incomplete)
    heard.finish(completed=True)
    record = _record(
        plan,
        collected,
        judged,
        origins=origins or {},
        started_at=started_at,
        phases=heard.phases,
        incomplete=incomplete,
    )
    record = _write(record, collected.evidence, folder)
    if interrupted:
        raise KeyboardInterrupt(f"what was learnt is in {folder}")
    return RunResult(record, folder, collected.evidence, missing)


@dataclass(frozen=True)
class Judgement:
    """What was concluded from the evidence."""

    metrics: Metrics
    checks: tuple[CheckRecord, ...]
    diagnosis: tuple[Any, ...]
    verdict: Verdict
    summary: str


def judge(plan: Plan, evidence: Evidence, *, incomplete: str | None) -> Judgement:
    """Metrics, checks, causes and the verdict of some evidence; no engine is asked."""
    metrics = compute_metrics(evidence)
    case = Case(
        evidence=evidence,
        metrics=metrics,
        num_speculative_tokens=plan.num_speculative_tokens,
        temperature=plan.settings.temperature,
        limits=CheckLimits(
            min_acceptance_length=plan.settings.min_acceptance_length, fail_on=plan.settings.fail_on
        ),
    )
    checks = run_checks(case)
    verdict, summary = run_verdict(checks, metrics)
    if incomplete is not None and verdict != "failed":
        verdict, summary = "errored", incomplete.splitlines()[0]
    return Judgement(metrics, checks, diagnose(checks, case), verdict, summary)


def _record(
    plan: Plan,
    collected: Collected,
    judged: Judgement,
    *,
    origins: Mapping[str, str],
    started_at: datetime,
    phases: tuple[PhaseRecord, ...],
    incomplete: str | None,
) -> RunRecord:
    contract = collected.evidence.contract
    return RunRecord(
        schema_version=SCHEMA_VERSION,
        tool=ToolRecord(version=__version__),
        run_id=plan.run_id,
        started_at=started_at.isoformat(timespec="seconds"),
        duration_s=round(sum(phase.duration_s for phase in phases), 3),
        verdict=judged.verdict,
        summary=judged.summary,
        pair=plan.pair,
        engine=collected.evidence.facts,
        level=collected.evidence.level,
        environment=environment_snapshot(),
        settings={
            name: list(value) if isinstance(value, tuple) else value
            for name, value in dataclasses.asdict(plan.settings).items()
        },
        setting_origins=dict(origins),
        workload=collected.workload,
        contract=contract.without_lists() if contract is not None else None,
        metrics=judged.metrics,
        checks=judged.checks,
        diagnosis=judged.diagnosis,
        phases=phases,
        incomplete=incomplete,
    )


def _write(record: RunRecord, evidence: Evidence, folder: Path) -> RunRecord:
    """Traces first, then reports, then the record that names them."""
    traces = runs.write_traces(evidence, folder, record.run_id)
    log = folder / runs.ENGINE_LOG_NAME
    artifacts = Artifacts(
        report=runs.REPORT_NAME,
        traces=traces.name,
        engine_log=log.name if log.exists() else None,
    )
    record = msgspec.structs.replace(record, artifacts=artifacts)
    write_reports(record, evidence, folder)
    runs.write_record(record, folder)
    return record


def _discard(folder: Path, *, own: bool) -> None:
    """Take back a run folder in which nothing but an engine log can lie; a user's other files stay.

    Of our `own` choice (`.dflash/runs/RUN_ID`) the folders above go too, where they are empty.
    """
    (folder / runs.ENGINE_LOG_NAME).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        for place in (folder, *folder.parents[:2]) if own else (folder,):
            place.rmdir()


def _new_run_id() -> str:
    """Sorts by time; the suffix keeps two runs of one second apart."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


class _Stopwatch:
    """Passes progress on and keeps how long each phase took."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._open: tuple[str, str, float] | None = None
        self._done: list[PhaseRecord] = []

    @property
    def phases(self) -> tuple[PhaseRecord, ...]:
        """Finished phases, in order."""
        return tuple(self._done)

    def phase(self, name: str, detail: str = "") -> None:
        """Close the phase that was open and begin another."""
        self.finish(completed=True)
        self._open = (name, detail, time.monotonic())
        self._listener.phase(name, detail)

    def progress(self, done: int, total: int) -> None:
        """Pass it on."""
        self._listener.progress(done, total)

    def trying(self, what: str) -> None:
        """Pass it on: an experiment takes a moment and is no phase of its own."""
        self._listener.trying(what)

    def finish(self, *, completed: bool) -> None:
        """Close the open phase."""
        if self._open is not None:
            name, detail, began = self._open
            duration = round(time.monotonic() - began, 3)
            self._done.append(PhaseRecord(name=name, duration_s=duration, completed=completed, detail=detail))
            self._open = None
