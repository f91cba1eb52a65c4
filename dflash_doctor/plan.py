"""What a run will do, settled before anything is started: every usage error is raised here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dflash_doctor.checkpoints.pair import read_pair
from dflash_doctor.contract.pair import PairContract
from dflash_doctor.engines.arguments import parse_engine_args
from dflash_doctor.engines.base import EngineOptions, Sampling, Shim
from dflash_doctor.engines.model_folder import require_model_folder
from dflash_doctor.errors import UsageError
from dflash_doctor.evidence import Arm
from dflash_doctor.records import PairRecord, RunRecord, WorkloadRecord
from dflash_doctor.runs import read_record
from dflash_doctor.settings import DRAFTLESS_METHODS, Settings
from dflash_doctor.workloads.defaults import default_workload
from dflash_doctor.workloads.prompts import Prompt, Workload, load_prompts
from dflash_doctor.workloads.sampling import stratified

RUNS_FOLDER = Path(".dflash") / "runs"


@dataclass(frozen=True)
class Plan:
    """Everything decided before the engine starts."""

    run_id: str
    settings: Settings
    folder: Path
    pair: PairRecord
    num_speculative_tokens: int | None
    """K; `None` where only the engine can know it."""
    engine_args: dict[str, Any]
    workload: Workload | None
    """`None` for a replay: its prompts are in the record."""
    prompts: tuple[Prompt, ...]
    contract: PairContract | None = None
    """What the files of the pair say; `None` for a replay."""
    replayed: RunRecord | None = None
    shims: tuple[Shim, ...] = ()
    """Defects put on every speculative engine of the run: the doctor's own test."""

    def engine_options(self, arm: Arm, *, log_path: Path) -> EngineOptions:
        """How to start the engine of one arm."""
        speculative = arm == "speculative"
        return EngineOptions(
            target=self.pair.target,
            draft=self.pair.draft if speculative else None,
            method=self.pair.method,
            num_speculative_tokens=self.num_speculative_tokens if speculative else None,
            arm=arm,
            engine_args=self.engine_args,
            seed=self.settings.seed,
            log_path=str(log_path),
            start_timeout_s=self.settings.start_timeout,
            stall_timeout_s=self.settings.stall_timeout,
            replay=self.settings.replay,
            shims=self.shims if speculative else (),
        )

    def sampling(self) -> Sampling:
        """Parameters of every request."""
        greedy = self.settings.temperature == 0
        return Sampling(
            max_tokens=self.settings.max_tokens,
            temperature=self.settings.temperature,
            seed=None if greedy else self.settings.seed,
        )

    def workload_record(self, chat_template_sha256: str | None) -> WorkloadRecord | None:
        """What was asked, for the run record."""
        if self.replayed is not None:
            return self.replayed.workload
        if self.workload is None:
            return None
        return WorkloadRecord(
            source=self.workload.source,
            num_prompts=len(self.prompts),
            sha256=self.workload.sha256,
            categories=dict(Counter(prompt.category for prompt in self.prompts)),
            chat_template_sha256=chat_template_sha256,
            thinking=self.settings.thinking,
            max_tokens=self.settings.max_tokens,
            temperature=self.settings.temperature,
            seed=self.settings.seed,
        )


def make_plan(settings: Settings, *, run_id: str, shims: tuple[Shim, ...] = ()) -> Plan:
    """Check the settings against each other and against the files they name.

    Raises:
        UsageError: with the first thing that does not fit.
    """
    folder = Path(settings.output) if settings.output else RUNS_FOLDER / run_id
    engine_args = parse_engine_args(settings.engine_arg)
    if settings.engine == "replay":
        return _replay_plan(settings, run_id, folder, engine_args)
    target = _require_target(settings)
    draft = _require_draft(settings)
    num_tokens = settings.num_speculative_tokens
    contract = read_pair(target, draft, engine_args=engine_args)
    if num_tokens is None and (reading := contract.reading(settings.reader)) is not None:
        num_tokens = reading.num_draft_tokens
    workload = load_prompts(settings.prompts) if settings.prompts else default_workload(target)
    prompts = workload.prompts
    if settings.max_prompts is not None:
        prompts = stratified(prompts, settings.max_prompts, seed=settings.seed)
    return Plan(
        run_id=run_id,
        settings=settings,
        folder=folder,
        pair=PairRecord(
            target=target,
            draft=draft,
            method=settings.method,
            target_sha256=contract.target.sha256,
            draft_sha256=contract.draft.sha256 if contract.draft is not None else None,
        ),
        contract=contract,
        num_speculative_tokens=num_tokens,
        engine_args=engine_args,
        workload=workload,
        prompts=prompts,
        shims=shims,
    )


def _replay_plan(settings: Settings, run_id: str, folder: Path, engine_args: dict[str, Any]) -> Plan:
    if settings.replay is None:
        raise UsageError(
            "the replay engine needs a recorded run",
            seen="no --replay",
            remedy="name a run folder: --replay .dflash/runs/RUN_ID",
        )
    record, _ = read_record(settings.replay)
    facts = record.engine
    return Plan(
        run_id=run_id,
        settings=settings,
        folder=folder,
        pair=record.pair,
        num_speculative_tokens=facts.num_spec_tokens if facts else None,
        engine_args=engine_args,
        workload=None,
        prompts=(),
        replayed=record,
    )


def _require_target(settings: Settings) -> str:
    if settings.target is None:
        raise UsageError(
            "no target model was named",
            seen="no --target",
            remedy="give --target and --draft, or try the bundled pair with: dflash-doctor demo",
        )
    require_model_folder(settings.target, role="target")
    return settings.target


def _require_draft(settings: Settings) -> str | None:
    if settings.draft is None:
        if settings.method in DRAFTLESS_METHODS:
            return None
        raise UsageError(
            "no drafter was named",
            seen=f"method {settings.method} without --draft",
            remedy="give --draft, or try the bundled pair with: dflash-doctor demo",
        )
    require_model_folder(settings.draft, role="draft")
    return settings.draft
