"""Collects the evidence of a planned run, keeping what was learnt when an engine dies half-way."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path

from dflash_doctor.engines.catalog import open_engine
from dflash_doctor.engines.replay import recorded_evidence
from dflash_doctor.evidence import Evidence
from dflash_doctor.plan import Plan
from dflash_doctor.probes.arms import Watcher, observe_speculative, observe_target_only
from dflash_doctor.probes.contract import collect_contract
from dflash_doctor.probes.engine_trials import observe_engine_trials
from dflash_doctor.probes.experiments import observe_experiments, with_experiments
from dflash_doctor.probes.live_trials import observe_live_trials
from dflash_doctor.records import WorkloadRecord


@dataclass(frozen=True)
class Collected:
    """The evidence so far, and what was asked."""

    evidence: Evidence = field(default_factory=Evidence)
    workload: WorkloadRecord | None = None


class Collector:
    """Runs the arms of a plan; `collected` is valid at any time, also after an exception."""

    def __init__(self, plan: Plan, *, log_path: Path, watcher: Watcher) -> None:
        self._plan = plan
        self._log_path = log_path
        self._watcher = watcher
        self.collected = Collected(workload=plan.workload_record(None))

    def collect(self) -> None:
        """Run both arms.

        Raises:
            UsageError: the engine was asked for something it does not know.
            EngineError: an engine failed; `collected` holds what came before.
        """
        plan, watcher = self._plan, self._watcher
        name = plan.settings.engine
        if plan.replayed is not None:
            watcher.phase("reading", str(plan.settings.replay))
            assert plan.settings.replay is not None, "make_plan requires it"
            evidence = recorded_evidence(Path(plan.settings.replay))
            self.collected = Collected(evidence, plan.workload_record(None))
            return
        watcher.phase("checking", "files, packages and settings")
        contract = collect_contract(plan.settings, plan.engine_args, pair=plan.contract)
        self._keep(Evidence(contract=contract))
        watcher.phase("loading", f"{name}, speculative")
        with open_engine(name, plan.engine_options("speculative", log_path=self._log_path)) as engine:
            template = engine.chat_template()
            digest = hashlib.sha256(template.encode()).hexdigest() if template is not None else None
            self.collected = replace(self.collected, workload=plan.workload_record(digest))
            evidence, requests = observe_speculative(
                engine,
                self.collected.evidence,
                plan.prompts,
                plan.sampling(),
                thinking=plan.settings.thinking,
                watcher=watcher,
                keep=self._keep,
            )
            trials, unchanged, not_tried = observe_live_trials(engine, plan, requests, watcher=watcher)
            evidence = with_experiments(evidence, trials, not_tried)
            self._keep(evidence)
        watcher.phase("loading", f"{name}, target-only")
        with open_engine(name, plan.engine_options("target-only", log_path=self._log_path)) as engine:
            evidence = observe_target_only(
                engine, evidence, requests, plan.sampling(), watcher=watcher, keep=self._keep
            )
        self._keep(evidence)
        evidence = observe_experiments(
            plan, evidence, log_path=self._log_path, watcher=watcher, keep=self._keep
        )
        self._keep(evidence)
        if unchanged is not None:
            evidence = observe_engine_trials(
                plan, evidence, unchanged, requests, log_path=self._log_path, watcher=watcher, keep=self._keep
            )
            self._keep(evidence)

    def _keep(self, evidence: Evidence) -> None:
        self.collected = replace(self.collected, evidence=evidence)
