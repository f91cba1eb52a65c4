"""What every engine must do. A test module subclasses `EngineContract` and names its engine."""

from __future__ import annotations

from typing import ClassVar

import pytest
from engine_arms import MAX_TOKENS, OpenArm, requests_for

from dflash_doctor.engines.base import Continuation, Conversation, Engine, Sampling
from dflash_doctor.engines.catalog import open_engine
from dflash_doctor.errors import DoctorError, EngineError
from dflash_doctor.evidence import LEVELS, Generation
from dflash_doctor.metrics.identities import identity_violations

SAMPLING = Sampling(max_tokens=MAX_TOKENS)


class EngineContract:
    """The suite; `name` is the engine's catalog name."""

    name: ClassVar[str]

    @pytest.fixture
    def speculative(self, open_arm: OpenArm) -> Engine:
        return open_arm(self.name, "speculative")

    @pytest.fixture
    def target_only(self, open_arm: OpenArm) -> Engine:
        return open_arm(self.name, "target-only")

    @pytest.fixture
    def captured(self, speculative: Engine) -> Generation:
        return speculative.generate(requests_for(speculative), SAMPLING, capture=True)

    def test_describe_when_running_then_names_engine_and_settings(self, speculative: Engine) -> None:
        facts = speculative.describe()
        assert facts.name
        assert facts.version
        assert facts.num_spec_tokens == 7
        assert facts.block_size == 8
        assert facts.mask_token_id == 3
        assert facts.target_layer_ids == (1, 3, 4)
        assert facts.dtype == "float32"
        assert facts.lossy_settings == ()

    def test_generate_when_captured_then_answers_come_in_order_and_in_bounds(
        self, speculative: Engine, captured: Generation
    ) -> None:
        requests = requests_for(speculative)
        assert [trace.prompt_id for trace in captured.requests] == [item.prompt_id for item in requests]
        assert [trace.prompt_ids for trace in captured.requests] == [item.token_ids for item in requests]
        assert captured.arm == "speculative"
        assert captured.captured
        for trace in captured.requests:
            assert 0 < len(trace.output_ids) <= MAX_TOKENS
            assert trace.finish_reason == ("length" if len(trace.output_ids) == MAX_TOKENS else "stop")
            assert trace.text

    def test_generate_when_captured_then_reaches_its_level_and_every_identity_holds(
        self, speculative: Engine, captured: Generation
    ) -> None:
        promised = speculative.capabilities.level
        assert promised in LEVELS
        assert captured.level == promised
        assert identity_violations(captured) == ()
        for trace in captured.requests:
            assert trace.steps
            if promised == "token":
                for step in trace.steps:
                    assert step.draft_ids is not None
                    assert step.chosen_rank == 1, "greedy: the target's own choice is its first"
                    assert (step.rejected_rank is None) == (step.num_accepted == step.num_drafted)

    def test_generate_when_greedy_then_speculation_changes_no_token(
        self, captured: Generation, target_only: Engine
    ) -> None:
        own = target_only.generate(requests_for(target_only), SAMPLING, capture=False)
        assert [trace.output_ids for trace in own.requests] == [
            trace.output_ids for trace in captured.requests
        ]
        assert all(not trace.steps for trace in own.requests)
        assert own.arm == "target-only"
        assert own.duration_s is not None
        assert own.duration_s > 0

    def test_generate_when_not_captured_then_the_text_is_the_same_and_it_is_timed(
        self, speculative: Engine, captured: Generation
    ) -> None:
        seen: list[tuple[int, int]] = []
        requests = requests_for(speculative)
        timed = speculative.generate(
            requests, SAMPLING, capture=False, on_progress=lambda *now: seen.append(now)
        )
        assert not timed.captured
        assert [trace.output_ids for trace in timed.requests] == [
            trace.output_ids for trace in captured.requests
        ]
        assert seen[-1] == (len(requests), len(requests))
        for trace in timed.requests:
            assert trace.timing is not None
            assert trace.timing.ttft_s is not None
            assert trace.timing.e2e_latency_s is not None
            assert 0 < trace.timing.ttft_s <= trace.timing.e2e_latency_s

    def test_render_when_thinking_is_switched_then_only_the_end_differs(self, target_only: Engine) -> None:
        if not target_only.capabilities.can_render:
            pytest.skip(f"engine {self.name} holds no tokenizer")
        conversation = Conversation(messages=({"role": "user", "content": "Which city is it?"},))
        off, on, default = (
            target_only.render([conversation], thinking=mode)[0] for mode in ("off", "on", "template")
        )
        assert on == default
        assert off[: len(on)] == on
        special = target_only.special_token_ids()
        assert special["<think>"] in off[len(on) :]
        assert special["</think>"] in off[len(on) :]
        raw = target_only.render([Conversation(prompt="Which city")], thinking="off")[0]
        assert "".join(target_only.token_texts(raw)[token] for token in raw) == "Which city"
        assert target_only.chat_template()

    def test_score_when_asked_for_its_own_tokens_then_agrees_with_decoding(self, target_only: Engine) -> None:
        if not target_only.capabilities.can_score:
            pytest.skip(f"engine {self.name} cannot score")
        requests = requests_for(target_only)[:2]
        decoded = target_only.generate(requests, SAMPLING, capture=False, logprobs=True, max_concurrency=1)
        for trace in decoded.requests:
            assert trace.output_logprobs is not None
            assert trace.runner_up_logprobs is not None
            assert len(trace.output_logprobs) == len(trace.output_ids) == len(trace.runner_up_logprobs)
            index = len(trace.output_ids) // 2
            other = (trace.output_ids[index] + 1) % 1000
            continuation = Continuation(
                prefix_ids=trace.prompt_ids + trace.output_ids[:index],
                token_ids=(trace.output_ids[index], other),
            )
            own, unlikely = target_only.score([continuation])[0]
            assert own == pytest.approx(trace.output_logprobs[index], abs=1e-3)
            assert unlikely <= trace.runner_up_logprobs[index] + 1e-3
        assert target_only.score([]) == ()

    def test_generate_when_asked_for_one_token_then_prefill_alone_answers(self, speculative: Engine) -> None:
        if self.name == "replay":
            pytest.skip("a record answers only as it was recorded")
        request = requests_for(speculative)[0]
        generation = speculative.generate([request], Sampling(max_tokens=1), capture=True)
        assert len(generation.requests[0].output_ids) == 1
        assert not generation.requests[0].steps

    def test_close_when_called_twice_then_later_calls_are_refused(
        self, request: pytest.FixtureRequest
    ) -> None:
        from engine_arms import options_for

        replay = str(request.getfixturevalue("recorded_run")) if self.name == "replay" else None
        request.getfixturevalue("open_arm")(self.name, "target-only")  # skips where not installed
        engine = open_engine(self.name, options_for("target-only", replay=replay))
        engine.close()
        engine.close()
        with pytest.raises(EngineError):
            engine.describe()

    def test_open_engine_when_an_argument_is_unknown_then_is_refused_with_what_fits(
        self, open_arm: OpenArm
    ) -> None:
        import msgspec
        from engine_arms import options_for

        if self.name == "replay":
            pytest.skip("a record takes no engine argument")
        open_arm(self.name, "target-only")
        wrong = msgspec.structs.replace(options_for("target-only"), engine_args={"dtyp": "float32"})
        with pytest.raises(DoctorError, match="no such") as raised:
            open_engine(self.name, wrong)
        assert "dtype" in raised.value.remedy
