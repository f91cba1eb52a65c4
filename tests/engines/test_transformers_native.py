"""The transformers engine, in this process, on the bundled pair: what the contract does not ask of all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the transformers engine needs torch")
pytest.importorskip("transformers", reason="the transformers engine needs transformers")

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.engines import transformers_capture
from dflash_doctor.engines.base import Conversation, Engine, EngineOptions, Sampling, TokenizedPrompt
from dflash_doctor.engines.transformers_native import build_engine, open_engine
from dflash_doctor.errors import EngineError, UsageError
from dflash_doctor.evidence import Generation
from dflash_doctor.metrics.identities import identity_violations
from dflash_doctor.workloads.prompts import load_prompts

pytestmark = pytest.mark.engine

PAIR = bundled_fixtures() / "tiny_pair"
END = 2


def options(**changes: Any) -> EngineOptions:
    fields: dict[str, Any] = {
        "target": str(PAIR / "target"),
        "draft": str(PAIR / "draft"),
        "engine_args": {"dtype": "float32", "device": "cpu"},
    }
    return EngineOptions(**(fields | changes))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with build_engine(options()) as built:
        yield built


@pytest.fixture(scope="module")
def target_only() -> Iterator[Engine]:
    with build_engine(options(arm="target-only", draft=None)) as built:
        yield built


@pytest.fixture(scope="module")
def prompts(engine: Engine) -> list[TokenizedPrompt]:
    """One prompt of each category."""
    chosen = load_prompts(PAIR / "prompts.jsonl").prompts[::40]
    rendered = engine.render([Conversation(messages=item.messages) for item in chosen], thinking="off")
    return [
        TokenizedPrompt(prompt_id=item.id, category=item.category, token_ids=ids)
        for item, ids in zip(chosen, rendered, strict=True)
    ]


def outputs(generation: Generation) -> list[tuple[int, ...]]:
    return [trace.output_ids for trace in generation.requests]


def copied_target(folder: Path, *, generation: dict[str, Any] | None = None, drop: str | None = None) -> str:
    """The bundled target with another generation config, or without one tensor."""
    from safetensors.torch import load_file, save_file

    copy = folder / "target"
    shutil.copytree(PAIR / "target", copy, copy_function=shutil.copyfile)
    if generation is not None:
        (copy / "generation_config.json").write_text(json.dumps(generation))
    if drop is not None:
        tensors = load_file(copy / "model.safetensors")
        del tensors[drop]
        save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    return str(copy)


def test_describe_when_speculative_then_gives_what_the_live_models_use(engine: Engine) -> None:
    facts = engine.describe()
    assert (facts.name, facts.method, facts.device, facts.dtype) == (
        "transformers",
        "dflash",
        "cpu",
        "float32",
    )
    assert (facts.num_spec_tokens, facts.block_size, facts.mask_token_id) == (7, 8, 3)
    assert facts.target_layer_ids == facts.aux_hidden_state_layers == (1, 3, 4)
    assert facts.draft_layers_causal == (False, False)
    assert (facts.num_target_layers, facts.max_model_len) == (6, 2048)
    assert facts.draft_class == "MuseGlimmerAssistantModel"
    assert facts.target_attention
    assert facts.draft_attention
    assert facts.live["end_token_ids"] == [END]
    assert facts.live["differs_from_draft_config"] == []
    assert facts.live["unused_target_tensors"] == []


def test_describe_when_target_only_then_says_nothing_of_a_drafter(target_only: Engine) -> None:
    facts = target_only.describe()
    assert (facts.method, facts.num_spec_tokens, facts.block_size, facts.draft_class) == (None,) * 4
    assert facts.version
    assert target_only.capabilities.level == "request"


@pytest.mark.parametrize("max_tokens", range(1, 14))
def test_generate_when_the_limit_cuts_anywhere_in_a_step_then_every_identity_holds(
    engine: Engine, target_only: Engine, prompts: list[TokenizedPrompt], max_tokens: int
) -> None:
    sampling = Sampling(max_tokens=max_tokens)
    captured = engine.generate(prompts, sampling, capture=True)
    streamed = engine.generate(prompts, sampling, capture=False)
    assert identity_violations(captured) == ()
    assert identity_violations(streamed) == ()
    assert outputs(captured) == outputs(streamed)
    assert outputs(captured) == outputs(target_only.generate(prompts, sampling, capture=False))
    for trace, counted in zip(captured.requests, streamed.requests, strict=True):
        assert (len(trace.output_ids), trace.finish_reason) == (max_tokens, "length")
        steps = trace.steps or ()
        assert all(step.num_drafted == 7 for step in steps)
        assert [step.num_accepted for step in steps] == [step.num_accepted for step in counted.steps or ()]


def test_generate_when_a_text_ends_then_its_last_step_still_holds_all_it_emitted(
    engine: Engine, prompts: list[TokenizedPrompt]
) -> None:
    generation = engine.generate(prompts, Sampling(max_tokens=200), capture=True)
    overshoots = 0
    for trace in generation.requests:
        assert trace.finish_reason == "stop"
        assert trace.output_ids.index(END) == len(trace.output_ids) - 1
        last = (trace.steps or ())[-1]
        assert last.position is not None
        assert last.emitted_ids is not None
        kept = len(trace.prompt_ids) + len(trace.output_ids) - last.position
        assert last.emitted_ids[kept - 1] == END
        overshoots += len(last.emitted_ids) > kept
    assert overshoots > 0, "some drafts run past the end of the text"


def test_generate_when_ends_are_ignored_then_goes_on_to_the_limit(
    engine: Engine, target_only: Engine, prompts: list[TokenizedPrompt]
) -> None:
    sampling = Sampling(max_tokens=90, ignore_eos=True)
    generation = engine.generate(prompts, sampling, capture=True)
    assert {len(output) for output in outputs(generation)} == {90}
    assert any(END in output[:-1] for output in outputs(generation))
    assert outputs(generation) == outputs(target_only.generate(prompts, sampling, capture=False))
    assert identity_violations(generation) == ()


def test_generate_when_sampling_then_scores_are_the_targets_before_temperature(
    engine: Engine, prompts: list[TokenizedPrompt]
) -> None:
    sampling = Sampling(max_tokens=60, temperature=0.6, top_k=20, seed=3)
    generation = engine.generate(prompts, sampling, capture=True, logprobs=True)
    assert identity_violations(generation) == ()
    compared = 0
    for trace in generation.requests:
        assert trace.output_logprobs is not None
        for step in trace.steps or ():
            assert step.position is not None
            index = step.position - len(trace.prompt_ids) + step.num_accepted
            if index < len(trace.output_ids):
                assert step.chosen_logprob == pytest.approx(trace.output_logprobs[index], abs=1e-4)
                compared += 1
    assert compared > 20


def test_generate_when_sampling_then_the_seed_decides(engine: Engine, prompts: list[TokenizedPrompt]) -> None:
    def texts(seed: int) -> list[tuple[int, ...]]:
        sampling = Sampling(max_tokens=60, temperature=1.0, seed=seed)
        return outputs(engine.generate(prompts, sampling, capture=False))

    assert texts(1) == texts(1)
    assert texts(1) != texts(2)


def test_generate_when_greedy_then_a_step_holds_ranks_and_scores_of_what_decided(
    engine: Engine, prompts: list[TokenizedPrompt]
) -> None:
    generation = engine.generate(prompts, Sampling(max_tokens=120), capture=True)
    rejections = 0
    for trace in generation.requests:
        times = [step.time_s for step in trace.steps or ()]
        assert all(time is not None and time > 0 for time in times)
        assert times == sorted(times, key=lambda time: time or 0)
        for step in trace.steps or ():
            assert step.chosen_rank == 1
            if step.rejected_id is None:
                assert (step.rejected_rank, step.rejected_logprob) == (None, None)
                continue
            rejections += 1
            assert step.rejected_rank is not None
            assert step.rejected_rank > 1
            assert step.rejected_logprob is not None
            assert step.chosen_logprob is not None
            assert step.rejected_logprob <= step.chosen_logprob
    assert rejections > 10
    assert generation.capture is not None
    assert generation.capture.num_steps == sum(len(trace.steps or ()) for trace in generation.requests)
    assert generation.capture.max_logit is not None
    assert generation.capture.max_logit > 1


@pytest.mark.parametrize("num_tokens", [1, 3, 12])
def test_generate_when_k_is_another_then_drafts_that_many_and_the_text_stays(
    num_tokens: int, target_only: Engine, prompts: list[TokenizedPrompt]
) -> None:
    sampling = Sampling(max_tokens=40)
    with build_engine(options(num_speculative_tokens=num_tokens)) as engine:
        generation = engine.generate(prompts[:3], sampling, capture=True)
        facts = engine.describe()
    assert (facts.num_spec_tokens, facts.block_size) == (num_tokens, 8)
    assert {step.num_drafted for trace in generation.requests for step in trace.steps or ()} == {num_tokens}
    assert identity_violations(generation) == ()
    assert outputs(generation) == outputs(target_only.generate(prompts[:3], sampling, capture=False))


def test_generate_when_the_capture_hook_is_gone_then_steps_are_counted_and_the_record_says_why(
    engine: Engine, prompts: list[TokenizedPrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = Sampling(max_tokens=40)
    whole = engine.generate(prompts, sampling, capture=True)
    monkeypatch.setattr(transformers_capture, "_MAKER", "_named_otherwise")
    counted = engine.generate(prompts, sampling, capture=True)
    assert counted.level == "step"
    assert counted.capture is not None
    assert "does not hand out its candidate generator" in counted.capture.reason
    assert outputs(counted) == outputs(whole)
    assert identity_violations(counted) == ()
    for one, other in zip(whole.requests, counted.requests, strict=True):
        assert [(step.num_drafted, step.num_accepted) for step in one.steps or ()] == [
            (step.num_drafted, step.num_accepted) for step in other.steps or ()
        ]
        assert all(step.draft_ids is None for step in other.steps or ())


def test_generate_when_the_capture_fails_then_the_text_does_not(
    engine: Engine, prompts: list[TokenizedPrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = Sampling(max_tokens=40)
    whole = engine.generate(prompts, sampling, capture=True)

    def breaks(self: Any, output: Any) -> None:
        raise AttributeError("no logits")

    monkeypatch.setattr(transformers_capture.StepRecorder, "_keep_logits", breaks)
    counted = engine.generate(prompts, sampling, capture=True)
    assert outputs(counted) == outputs(whole)
    assert counted.level == "step"
    assert counted.capture is not None
    assert counted.capture.num_errors == len(prompts)
    assert counted.capture.last_error == "AttributeError: no logits"
    assert identity_violations(counted) == ()


def test_generate_when_captured_then_leaves_no_hook_behind(
    engine: Engine, prompts: list[TokenizedPrompt]
) -> None:
    engine.generate(prompts[:1], Sampling(max_tokens=4), capture=True)
    target: Any = engine._target  # type: ignore[attr-defined]
    assert not target._forward_hooks
    assert "_get_candidate_generator" not in vars(target)


def test_generate_when_running_then_every_step_is_a_sign_of_life(
    engine: Engine, prompts: list[TokenizedPrompt]
) -> None:
    seen: list[tuple[int, int]] = []
    engine.generate(
        prompts[:2], Sampling(max_tokens=40), capture=False, on_progress=lambda *now: seen.append(now)
    )
    assert seen[0] == (0, 2)
    assert seen[-1] == (2, 2)
    assert seen == sorted(seen)
    assert seen.count((0, 2)) > 5


def test_generate_when_the_checkpoint_has_sampling_defaults_then_the_runs_own_stand(
    tmp_path: Path, target_only: Engine, prompts: list[TokenizedPrompt]
) -> None:
    defaults = {"eos_token_id": [END, 1], "do_sample": True, "temperature": 5.0, "repetition_penalty": 9.0}
    sampling = Sampling(max_tokens=40)
    with build_engine(options(target=copied_target(tmp_path, generation=defaults))) as engine:
        generation = engine.generate(prompts, sampling, capture=True)
        assert engine.describe().live["end_token_ids"] == [END, 1]
    assert outputs(generation) == outputs(target_only.generate(prompts, sampling, capture=False))


@pytest.mark.parametrize("token_ids", [(), (1,) * 2048])
def test_generate_when_a_prompt_does_not_fit_then_is_refused(
    engine: Engine, token_ids: Sequence[int]
) -> None:
    prompt = TokenizedPrompt(prompt_id="p", category="c", token_ids=tuple(token_ids))
    with pytest.raises(EngineError, match="does not fit the model"):
        engine.generate([prompt], Sampling(), capture=True)


def test_generate_when_the_context_ends_before_the_limit_then_the_text_ends_there(
    engine: Engine, target_only: Engine
) -> None:
    prompt = TokenizedPrompt(prompt_id="p", category="c", token_ids=(100,) * 2043)
    sampling = Sampling(max_tokens=50, ignore_eos=True)
    generation = engine.generate([prompt], sampling, capture=True)
    assert len(generation.requests[0].output_ids) == 5
    assert outputs(generation) == outputs(target_only.generate([prompt], sampling, capture=False))
    assert identity_violations(generation) == ()


def test_generate_when_torch_fails_then_the_error_is_ours_and_the_engine_goes_on(
    engine: Engine, prompts: list[TokenizedPrompt]
) -> None:
    outside = TokenizedPrompt(prompt_id="p", category="c", token_ids=(5000,))
    with pytest.raises(EngineError, match="failed to generate") as raised:
        engine.generate([outside], Sampling(), capture=True)
    assert "IndexError" in raised.value.seen
    assert engine.generate(prompts[:1], Sampling(max_tokens=4), capture=True).level == "token"


def test_build_engine_when_a_target_tensor_is_missing_then_names_it(tmp_path: Path) -> None:
    folder = copied_target(tmp_path, drop="model.layers.3.mlp.up_proj.weight")
    with pytest.raises(EngineError, match="tensor of the target is missing") as raised:
        build_engine(options(target=folder))
    assert "model.layers.3.mlp.up_proj.weight (1 in all)" in raised.value.seen


def test_build_engine_when_the_target_has_no_weights_then_says_so(tmp_path: Path) -> None:
    folder = Path(copied_target(tmp_path))
    (folder / "model.safetensors").unlink()
    with pytest.raises(UsageError, match="target model cannot be loaded"):
        build_engine(options(target=str(folder)))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"device": "gpu7"}, UsageError, "torch has no such device"),
        ({"attn_implementation": "none_such"}, EngineError, "failed to load the target"),
    ],
)
def test_build_engine_when_an_argument_names_nothing_then_says_so(
    arguments: dict[str, str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as raised:
        build_engine(options(engine_args=arguments))
    assert next(iter(arguments.values())) in str(raised.value)


def test_build_engine_when_attention_and_dtype_are_given_then_uses_them(
    prompts: list[TokenizedPrompt],
) -> None:
    arguments = {"dtype": "bfloat16", "attn_implementation": "eager", "device": "cpu"}
    with build_engine(options(engine_args=arguments)) as engine:
        facts = engine.describe()
        generation = engine.generate(prompts[:2], Sampling(max_tokens=24), capture=True)
    assert (facts.dtype, facts.target_attention) == ("bfloat16", ("eager",))
    assert identity_violations(generation) == ()


def test_open_engine_when_the_child_refuses_then_the_reason_arrives(tmp_path: Path) -> None:
    folder = copied_target(tmp_path, drop="model.norm.weight")
    with pytest.raises(EngineError, match="tensor of the target is missing") as raised:
        open_engine(options(target=folder, log_path=str(tmp_path / "engine.log")))
    assert "model.norm.weight" in raised.value.seen
