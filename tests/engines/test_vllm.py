"""What only vLLM has: two model runners, its arguments, and its own ids."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from doctor_process import PAIR, require_vllm

from dflash_doctor.engines.base import EngineOptions
from dflash_doctor.engines.vllm_options import engine_arguments, prepare_environment
from dflash_doctor.engines.vllm_results import CapturedSteps
from dflash_doctor.errors import UsageError
from dflash_doctor.evidence import EngineFacts, Generation, VerifyStep
from dflash_doctor.metrics.identities import identity_violations

SCRIPT = Path(__file__).parent / "decode_with_vllm.py"


class _Result(msgspec.Struct):
    generation: Generation
    facts: EngineFacts


def decode(runner: str) -> _Result:
    """Four prompts of 24 tokens on this model runner, in a process of its own."""
    environment = dict(os.environ, VLLM_LOGGING_LEVEL="ERROR")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), runner, str(PAIR), "4", "24"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
    )
    marked = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert marked, done.stderr[-3000:]
    return msgspec.json.decode(marked[0].removeprefix("RESULT "), type=_Result)


@pytest.mark.engine
def test_capture_when_the_v2_runner_decodes_then_every_step_equals_v1s() -> None:
    require_vllm()
    if importlib.util.find_spec("triton") is None:
        pytest.skip("the V2 runner needs Triton, which is interpreted here")
    first, second = decode("v1"), decode("v2")
    assert (first.facts.runner_generation, second.facts.runner_generation) == ("v1", "v2")
    assert second.generation.level == "token"
    assert identity_violations(second.generation) == ()
    compared = 0
    for one, other in zip(first.generation.requests, second.generation.requests, strict=True):
        assert one.output_ids == other.output_ids
        assert one.steps is not None
        assert other.steps is not None
        for left, right in zip(one.steps, other.steps, strict=True):
            for name in ("draft_ids", "emitted_ids", "num_accepted", "position", "rejected_rank"):
                assert getattr(left, name) == getattr(right, name), name
            assert left.rejected_logprob == pytest.approx(right.rejected_logprob, abs=1e-3)
            compared += 1
    assert compared > 15
    for name in (
        "lm_head_shared",
        "mask_token_id",
        "draft_layers_causal",
        "target_layer_ids",
        "draft_attention",
    ):
        assert getattr(first.facts, name) == getattr(second.facts, name), name


@pytest.mark.engine
def test_capture_when_the_hook_is_missing_then_falls_to_step_level_and_says_why() -> None:
    require_vllm()
    result = decode("hookless")
    capture = result.generation.capture
    assert capture is not None
    assert (capture.level, capture.reason) == ("step", "this worker has no rejection sampler")
    assert identity_violations(result.generation) == ()
    for trace in result.generation.requests:
        assert trace.steps
        assert all(step.draft_ids is None for step in trace.steps)


def options(**changes: Any) -> EngineOptions:
    fields: dict[str, Any] = {"target": str(PAIR / "target"), "draft": str(PAIR / "draft")}
    return EngineOptions(**(fields | changes))


@pytest.mark.engine
def test_engine_arguments_when_k_is_not_given_then_the_block_decides() -> None:
    require_vllm()
    arguments = engine_arguments(options())
    assert arguments["speculative_config"] == {
        "method": "dflash",
        "num_speculative_tokens": 7,
        "model": str(PAIR / "draft"),
    }
    assert arguments["per_request_spec_decode_metrics"] == "detailed"
    assert "speculative_config" not in engine_arguments(options(arm="target-only"))


@pytest.mark.engine
def test_engine_arguments_when_the_user_gives_some_then_they_win_also_nested() -> None:
    require_vllm()
    given = {"enforce_eager": False, "seed": 5, "speculative_config.draft_sample_method": "greedy"}
    arguments = engine_arguments(options(engine_args=given))
    assert (arguments["enforce_eager"], arguments["seed"]) == (False, 5)
    assert arguments["speculative_config"]["draft_sample_method"] == "greedy"


@pytest.mark.engine
def test_engine_arguments_when_k_cannot_be_known_then_asks_for_it(tmp_path: Path) -> None:
    require_vllm()
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="number of speculative tokens"):
        engine_arguments(options(draft=str(tmp_path)))


def test_prepare_environment_when_the_user_has_set_a_variable_then_it_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("VLLM_NO_USAGE_STATS", "OMP_NUM_THREADS", "VLLM_CPU_KVCACHE_SPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DO_NOT_TRACK", "0")
    prepare_environment(options())
    assert os.environ["DO_NOT_TRACK"] == "0"
    assert os.environ["VLLM_NO_USAGE_STATS"] == "1"


def step(position: int) -> VerifyStep:
    return VerifyStep(num_drafted=7, num_accepted=0, position=position)


def test_captured_steps_when_looked_up_then_engine_ids_and_client_ids_both_work() -> None:
    steps = CapturedSteps([("7-0afc0ffe", step(20)), ("7-0afc0ffe", step(12)), ("12", step(3))])
    assert [item.position for item in steps.of("7")] == [12, 20]
    assert [item.position for item in steps.of("12")] == [3]
    assert steps.of("1") == ()


def test_captured_steps_when_two_ranks_recorded_the_same_step_then_it_counts_once() -> None:
    steps = CapturedSteps([("0-a", step(5)), ("0-a", step(9)), ("0-a", step(5)), ("0-a", step(9))])
    assert [item.position for item in steps.of("0")] == [5, 9]
