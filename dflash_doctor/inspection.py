"""Judges a pair from files, packages and settings alone: no engine, no torch, no network.

    settings -> contract -> static checks -> diagnosis -> record

A run does the same first and then goes on to the engine (`session`).
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dflash_doctor import __version__
from dflash_doctor.checkpoints.hub_cache import require_hub_id
from dflash_doctor.checks.base import Case, CheckLimits
from dflash_doctor.checks.catalog import CHECKS, run_checks
from dflash_doctor.checks.verdict import run_verdict
from dflash_doctor.contract.evidence import ContractEvidence
from dflash_doctor.diagnosis.rank import diagnose
from dflash_doctor.engines.arguments import parse_engine_args
from dflash_doctor.environment.snapshot import environment_snapshot
from dflash_doctor.errors import UsageError
from dflash_doctor.evidence import Evidence
from dflash_doctor.probes.contract import collect_contract
from dflash_doctor.records import (
    SCHEMA_VERSION,
    CheckRecord,
    Metrics,
    PairRecord,
    RunRecord,
    ToolRecord,
    Verdict,
)
from dflash_doctor.settings import DRAFTLESS_METHODS, Settings

STATIC_CHECKS = tuple(entry for entry in CHECKS if entry.static)


@dataclass(frozen=True)
class InspectionResult:
    """What the static checks said, and the evidence behind it."""

    record: RunRecord
    evidence: Evidence


def inspect(
    settings: Settings,
    *,
    origins: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> InspectionResult:
    """Read, judge, record; nothing is written.

    Args:
        settings: which pair, and how it would be served.
        origins: where each setting came from, kept in the record.
        environ: the environment; the process's own by default.

    Raises:
        UsageError: no target or drafter is named, a path does not exist or is no model, or an engine argument
            is malformed.
    """
    _require_names(settings)
    began, started_at = time.monotonic(), datetime.now(UTC)
    contract = collect_contract(settings, parse_engine_args(settings.engine_arg), environ=environ)
    evidence = Evidence(contract=contract)
    case = Case(
        evidence=evidence,
        metrics=Metrics(),
        num_speculative_tokens=settings.num_speculative_tokens,
        temperature=settings.temperature,
        limits=CheckLimits(min_acceptance_length=settings.min_acceptance_length, fail_on=settings.fail_on),
    )
    checks = run_checks(case, STATIC_CHECKS)
    verdict, summary = _verdict(checks)
    record = RunRecord(
        schema_version=SCHEMA_VERSION,
        tool=ToolRecord(version=__version__),
        run_id=f"{started_at:%Y%m%d-%H%M%S}-{os.urandom(2).hex()}",
        started_at=started_at.isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - began, 3),
        verdict=verdict,
        summary=summary,
        pair=_pair_record(settings, contract),
        engine=None,
        level=None,
        environment=environment_snapshot(),
        settings={
            name: list(value) if isinstance(value, tuple) else value
            for name, value in dataclasses.asdict(settings).items()
        },
        setting_origins=dict(origins or {}),
        workload=None,
        contract=contract.without_lists(),
        metrics=Metrics(),
        checks=checks,
        diagnosis=diagnose(checks, case),
    )
    return InspectionResult(record, evidence)


def _verdict(checks: Sequence[CheckRecord]) -> tuple[Verdict, str]:
    verdict, summary = run_verdict(checks, Metrics())
    if verdict != "passed":
        return verdict, summary
    passed = sum(check.verdict == "passed" for check in checks)
    rest = len(checks) - passed
    text = f"{passed} checks of files, packages and settings passed"
    return verdict, text + (f"; {rest} not checked or not applicable" if rest else "")


def _pair_record(settings: Settings, contract: ContractEvidence) -> PairRecord:
    assert settings.target is not None, "required above"
    pair = contract.pair
    return PairRecord(
        target=settings.target,
        draft=settings.draft,
        method=settings.method,
        target_sha256=pair.target.sha256 if pair is not None else None,
        draft_sha256=pair.draft.sha256 if pair is not None and pair.draft is not None else None,
    )


def _require_names(settings: Settings) -> None:
    for role, name in (("target", settings.target), ("draft", settings.draft)):
        if name is None:
            if role == "draft" and settings.method in DRAFTLESS_METHODS:
                continue
            raise UsageError(
                f"no {role} model was named",
                seen=f"no --{role}" + (f", method {settings.method}" if role == "draft" else ""),
                remedy=f"give --{role}",
            )
        if name and Path(name).is_file() and Path(name).suffix != ".gguf":
            raise UsageError(
                f"the {role} model is a file",
                seen=name,
                remedy="name the folder it lies in (of files, only .gguf stands for a model)",
            )
        if not name or not Path(name).exists():
            require_hub_id(name, role)
