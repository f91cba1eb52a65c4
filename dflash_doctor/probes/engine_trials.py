"""The engine started again with one setting changed, where the files and the reference do not explain it.

A restart takes seconds on a small model and minutes on a large one, so this comes last, only where the engine
accepts less than the reference (or where there is no reference and almost nothing is accepted), and within
the budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dflash_doctor.engines.base import TokenizedPrompt
from dflash_doctor.engines.catalog import open_engine
from dflash_doctor.errors import DoctorError
from dflash_doctor.evidence import EngineFacts, Evidence, Generation
from dflash_doctor.metrics.experiments import experiment_metrics
from dflash_doctor.metrics.slices import acceptance_of_requests
from dflash_doctor.plan import Plan
from dflash_doctor.probes.arms import Keep, Watcher
from dflash_doctor.probes.experiments import with_experiments
from dflash_doctor.probes.live_trials import engine_trial, short
from dflash_doctor.records import ExperimentRecord
from dflash_doctor.trials import Trial

_BELOW_REFERENCE = 0.03
_ALMOST_NOTHING = 1.3


@dataclass(frozen=True, kw_only=True)
class EngineSetting:
    """A setting of the engine that may be at fault, and its other value."""

    name: str
    cause: str
    change: str
    remedy: str
    applies: Callable[[EngineFacts], bool]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    engines: tuple[str, ...] = ("vllm",)


ENGINE_SETTINGS: tuple[EngineSetting, ...] = (
    EngineSetting(
        name="eager mode",
        cause="attention-backend-incompatible",
        change="CUDA graphs -> eager mode",
        remedy="--enforce-eager, or another attention backend for the drafter, until the engine is fixed",
        applies=lambda facts: facts.enforce_eager is False,
        arguments={"enforce_eager": True},
    ),
    EngineSetting(
        name="prefix cache off",
        cause="draft-context-holes",
        change="prefix caching on -> off",
        remedy="--no-enable-prefix-caching until the engine fills the drafter's context on a cache hit",
        applies=lambda facts: bool(facts.prefix_caching),
        arguments={"enable_prefix_caching": False},
    ),
    EngineSetting(
        name="bfloat16",
        cause="draft-dtype-overflow",
        change="float16 -> bfloat16",
        remedy="--dtype bfloat16",
        applies=lambda facts: facts.dtype == "float16",
        arguments={"dtype": "bfloat16"},
    ),
    EngineSetting(
        name="synchronous scheduling",
        cause="engine-instability",
        change="asynchronous scheduling -> synchronous",
        remedy="--no-async-scheduling until the engine is fixed",
        applies=lambda facts: bool(facts.async_scheduling),
        arguments={"async_scheduling": False},
    ),
    EngineSetting(
        name="first model runner",
        cause="runner-specific",
        change="model runner V2 -> V1",
        remedy="VLLM_USE_V2_MODEL_RUNNER=0 for this drafter, where its features allow it",
        applies=lambda facts: facts.runner_generation == "v2",
        environment={"VLLM_USE_V2_MODEL_RUNNER": "0"},
    ),
    EngineSetting(
        name="Triton attention for the drafter",
        cause="attention-backend-incompatible",
        change="the drafter's attention backend -> TRITON_ATTN",
        remedy="--speculative-config attention_backend TRITON_ATTN",
        applies=lambda facts: (
            facts.device == "cuda" and not any("Triton" in item for item in facts.draft_attention)
        ),
        arguments={"speculative_config.attention_backend": "TRITON_ATTN"},
    ),
)
"""In the order in which they are tried."""


def observe_engine_trials(
    plan: Plan,
    evidence: Evidence,
    unchanged: Generation,
    requests: Sequence[TokenizedPrompt],
    *,
    log_path: Path,
    watcher: Watcher,
    keep: Keep,
) -> Evidence:
    """The evidence with runs of the engine under other settings, where they are called for.

    Args:
        plan: of the run.
        evidence: with the reference's experiments.
        unchanged: the short pass that the runs are compared with.
        requests: all of the run; those of the short pass are decoded again.
        log_path: of the engine.
        watcher: told what is tried.
        keep: given the evidence after each run.
    """
    facts = evidence.facts
    if facts is None or not is_called_for(experiment_metrics(evidence), unchanged):
        return evidence
    names = {trace.prompt_id for trace in unchanged.requests}
    chosen = [request for request in requests if request.prompt_id in names]
    spent = evidence.experiments.spent_s if evidence.experiments else 0.0
    deadline = time.monotonic() + plan.settings.budget - spent
    settings = [
        item for item in ENGINE_SETTINGS if plan.settings.engine in item.engines and item.applies(facts)
    ]
    for number, setting in enumerate(settings):
        if time.monotonic() > deadline:
            left = ", ".join(item.name for item in settings[number:])
            return with_experiments(evidence, (), (f"the budget was spent before: {left}; raise --budget",))
        started = time.monotonic()
        watcher.phase("experimenting", setting.change)
        trial = _carry_out(plan, setting, unchanged, chosen, log_path=log_path, watcher=watcher)
        evidence = with_experiments(evidence, (trial,), spent_s=time.monotonic() - started)
        keep(evidence)
    return evidence


def is_called_for(experiments: ExperimentRecord | None, unchanged: Generation) -> bool:
    """Whether the engine's settings are under suspicion."""
    reference = experiments.reference if experiments is not None else None
    if reference is None or reference.engine_excess_steps.low is None:
        length = acceptance_of_requests(unchanged.requests, label="").mean_acceptance_length.value
        return length is not None and length < _ALMOST_NOTHING
    explained = any(
        trial.kind == "reproduction" and trial.verdict == "explains"
        for trial in (experiments.trials if experiments is not None else ())
    )
    return reference.engine_excess_steps.low > _BELOW_REFERENCE and not explained


def _carry_out(
    plan: Plan,
    setting: EngineSetting,
    unchanged: Generation,
    requests: Sequence[TokenizedPrompt],
    *,
    log_path: Path,
    watcher: Watcher,
) -> Trial:
    started = time.monotonic()
    options = plan.engine_options("speculative", log_path=log_path)
    options = msgspec.structs.replace(
        options,
        engine_args={**options.engine_args, **setting.arguments},
        environment=dict(setting.environment),
    )
    try:
        with open_engine(plan.settings.engine, options) as engine:
            after = engine.generate(
                requests, short(plan.sampling()), capture=True, on_progress=watcher.progress
            )
    except DoctorError as error:
        return Trial(
            name=setting.name,
            kind="engine-run",
            cause=setting.cause,
            change=setting.change,
            measure="acceptance",
            remedy=setting.remedy,
            duration_s=round(time.monotonic() - started, 3),
            failed=f"{error.what}: {error.seen}" if error.seen else error.what,
        )
    return engine_trial(
        name=setting.name,
        cause=setting.cause,
        change=setting.change,
        before=unchanged,
        after=after,
        started=started,
        remedy=setting.remedy,
    )
