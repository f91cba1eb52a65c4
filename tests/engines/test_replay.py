"""Engine `replay` answers what the record answers with certainty, and refuses the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from evidence_factory import make_evidence
from record_factory import make_record

from dflash_doctor import __version__
from dflash_doctor.engines.base import Continuation, Conversation, EngineOptions, Sampling
from dflash_doctor.engines.replay import ReplayEngine, open_engine, recorded_evidence
from dflash_doctor.errors import EngineError, RecordError
from dflash_doctor.evidence import Arm, Divergence, Evidence, ThinkingTokens
from dflash_doctor.records import WorkloadRecord
from dflash_doctor.runs import write_record, write_traces

WORKLOAD = WorkloadRecord(
    source="prompts.jsonl", num_prompts=8, sha256="0" * 64, categories={"math": 4}, max_tokens=200
)
SAMPLING = Sampling(max_tokens=200)


def write_run(evidence: Evidence, folder: Path, **changes: Any) -> Path:
    record = make_record(evidence=evidence, changes={"workload": WORKLOAD, **changes})
    write_record(record, folder)
    write_traces(evidence, folder, record.run_id)
    return folder


def replay(evidence: Evidence, folder: Path, *, arm: Arm = "speculative", **changes: Any) -> ReplayEngine:
    run = write_run(evidence, folder, **changes)
    engine = open_engine(EngineOptions(target="t", arm=arm, replay=str(run)))
    assert isinstance(engine, ReplayEngine)
    return engine


def parted(evidence: Evidence) -> Evidence:
    """The same, with one scored and one unscored divergence."""
    assert evidence.target_only is not None
    first, second = evidence.target_only.requests[:2]
    scored = Divergence(
        prompt_id=first.prompt_id,
        category=first.category,
        index=4,
        target_id=11,
        speculative_id=12,
        target_logprob=-0.5,
        speculative_logprob=-0.75,
    )
    ended = Divergence(
        prompt_id=second.prompt_id, category=second.category, index=2, target_id=5, speculative_id=None
    )
    return msgspec.structs.replace(evidence, divergences=(scored, ended))


def test_recorded_evidence_when_a_run_was_written_then_is_what_was_observed(tmp_path: Path) -> None:
    evidence = make_evidence()
    assert recorded_evidence(write_run(evidence, tmp_path)) == evidence


def test_generate_when_asked_with_the_recorded_prompts_then_gives_each_pass_back(tmp_path: Path) -> None:
    evidence = make_evidence()
    with replay(evidence, tmp_path) as engine:
        prompts = engine.recorded_prompts()
        seen: list[tuple[int, int]] = []
        captured = engine.generate(prompts, SAMPLING, capture=True, on_progress=lambda *now: seen.append(now))
        timed = engine.generate(prompts, SAMPLING, capture=False)
    assert captured == evidence.speculative
    assert timed == evidence.speculative_timing
    assert seen == [(8, 8)]


def test_generate_when_the_arm_is_target_only_then_gives_that_pass_back(tmp_path: Path) -> None:
    evidence = make_evidence()
    with replay(evidence, tmp_path, arm="target-only") as engine:
        assert engine.capabilities.level == "request"
        assert engine.generate(engine.recorded_prompts(), SAMPLING, capture=False) == evidence.target_only


def test_generate_when_some_prompts_are_asked_in_another_order_then_answers_so_and_untimed(
    tmp_path: Path,
) -> None:
    with replay(make_evidence(), tmp_path) as engine:
        prompts = engine.recorded_prompts()[4:1:-1]
        generation = engine.generate(prompts, SAMPLING, capture=True)
    assert [trace.prompt_id for trace in generation.requests] == ["r004", "r003", "r002"]
    assert generation.duration_s is None


@pytest.mark.parametrize("change", [{"token_ids": (1, 2)}, {"prompt_id": "another"}])
def test_generate_when_a_prompt_was_not_recorded_then_is_refused(
    change: dict[str, Any], tmp_path: Path
) -> None:
    with replay(make_evidence(), tmp_path) as engine:
        prompt = msgspec.structs.replace(engine.recorded_prompts()[0], **change)
        with pytest.raises(EngineError, match=r"was not recorded with these tokens"):
            engine.generate([prompt], SAMPLING, capture=True)


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        (Sampling(max_tokens=50), "max_tokens 50: the run had 200"),
        (Sampling(max_tokens=200, temperature=0.7), r"temperature 0\.7: the run had 0"),
    ],
)
def test_generate_when_the_parameters_are_others_then_is_refused(
    sampling: Sampling, words: str, tmp_path: Path
) -> None:
    with replay(make_evidence(), tmp_path) as engine, pytest.raises(EngineError, match=words):
        engine.generate(engine.recorded_prompts(), sampling, capture=True)


def test_generate_when_the_pass_was_recorded_without_logprobs_then_is_refused(tmp_path: Path) -> None:
    with replay(make_evidence(), tmp_path) as engine, pytest.raises(EngineError, match="log-probabilities"):
        engine.generate(engine.recorded_prompts(), SAMPLING, capture=True, logprobs=True)


def test_generate_when_the_run_died_before_timing_then_that_pass_is_refused(tmp_path: Path) -> None:
    with replay(make_evidence(speculative_timing=None), tmp_path) as engine:
        prompts = engine.recorded_prompts()
        assert engine.generate(prompts, SAMPLING, capture=True).requests
        with pytest.raises(EngineError, match="no timing pass was recorded"):
            engine.generate(prompts, SAMPLING, capture=False)


def test_score_when_the_place_was_scored_then_gives_the_recorded_values(tmp_path: Path) -> None:
    evidence = parted(make_evidence())
    assert evidence.target_only is not None
    trace = evidence.target_only.requests[0]
    prefix = trace.prompt_ids + trace.output_ids[:4]
    with replay(evidence, tmp_path) as engine:
        assert engine.capabilities.can_score
        assert engine.score([Continuation(prefix_ids=prefix, token_ids=(12, 11))]) == ((-0.75, -0.5),)
        assert engine.score([]) == ()
        for refused in (
            Continuation(prefix_ids=prefix, token_ids=(13,)),
            Continuation(prefix_ids=prefix[:-1], token_ids=(11,)),
        ):
            with pytest.raises(EngineError, match="was not scored"):
                engine.score([refused])


def test_capabilities_when_nothing_was_scored_then_promise_no_scores(tmp_path: Path) -> None:
    with replay(make_evidence(), tmp_path) as engine:
        capabilities = engine.capabilities
    assert (capabilities.level, capabilities.arms) == ("token", ("speculative",))
    assert (capabilities.can_score, capabilities.can_sample, capabilities.can_render) == (False,) * 3


def test_describe_when_facts_were_recorded_then_gives_those_else_its_own_name(tmp_path: Path) -> None:
    evidence = make_evidence()
    with replay(evidence, tmp_path) as engine:
        assert engine.describe() == evidence.facts
    with replay(msgspec.structs.replace(evidence, facts=None), tmp_path) as engine:
        assert (engine.describe().name, engine.describe().version) == ("replay", __version__)


def test_text_when_asked_then_is_what_the_record_holds(tmp_path: Path) -> None:
    thinking = ThinkingTokens(start_id=7, end_id=8)
    with replay(make_evidence(thinking=thinking), tmp_path) as engine:
        assert engine.token_texts([20, 10**6]) == {20: "t20"}
        assert engine.special_token_ids() == {"<think>": 7, "</think>": 8}
        assert engine.chat_template() is None
        with pytest.raises(EngineError, match="cannot render"):
            engine.render([Conversation(prompt="x")], thinking="off")
    with replay(make_evidence(), tmp_path) as engine:
        assert engine.special_token_ids() == {}


def test_close_when_called_then_every_later_call_is_refused(tmp_path: Path) -> None:
    engine = replay(make_evidence(), tmp_path)
    prompts = engine.recorded_prompts()
    engine.close()
    engine.close()
    for call in (
        engine.describe,
        engine.recorded_prompts,
        engine.chat_template,
        engine.special_token_ids,
        lambda: engine.token_texts([1]),
        lambda: engine.score([]),
        lambda: engine.generate(prompts, SAMPLING, capture=True),
        lambda: engine.render([], thinking="off"),
    ):
        with pytest.raises(EngineError, match="closed"):
            call()


def test_open_engine_when_there_is_nothing_to_replay_then_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no recorded run was named"):
        open_engine(EngineOptions(target="t"))
    with pytest.raises(RecordError, match="no run record here"):
        open_engine(EngineOptions(target="t", replay=str(tmp_path / "none")))
    run = write_run(make_evidence(target_only=None), tmp_path)
    with pytest.raises(RecordError, match="no target-only arm"):
        open_engine(EngineOptions(target="t", arm="target-only", replay=str(run)))
