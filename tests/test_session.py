"""A session keeps what it learnt, whatever the engine does to it; and gives both arms the same prompts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from evidence_factory import make_generation, make_request

from dflash_doctor import session
from dflash_doctor.engines.base import (
    Capabilities,
    Continuation,
    Conversation,
    EngineOptions,
    TokenizedPrompt,
)
from dflash_doctor.errors import EngineError, EngineMissingError, UsageError
from dflash_doctor.evidence import CaptureReport, EngineFacts, Generation, RequestTrace
from dflash_doctor.probes import collect
from dflash_doctor.records import RunRecord
from dflash_doctor.runs import read_record, read_traces
from dflash_doctor.settings import Settings

PAIR = Path(__file__).resolve().parent.parent / "fixtures" / "tiny_pair"
K = 7


class ScriptedEngine:
    """Answers every prompt alike: with speculation in steps of 3, 0 and 7, alone the same text."""

    name = "scripted"

    def __init__(self, options: EngineOptions, script: dict[str, Any]) -> None:
        self.options = options
        self.script = script
        self.asked: list[list[TokenizedPrompt]] = []
        self.closed = False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            level="token", arms=(self.options.arm,), can_score=True, can_sample=True, can_render=True
        )

    def describe(self) -> EngineFacts:
        return EngineFacts(
            name=self.name,
            dtype="float32",
            method="dflash",
            num_spec_tokens=K,
            block_size=K + 1,
            max_model_len=self.script.get("max_model_len"),
        )

    def render(self, conversations: Sequence[Conversation], *, thinking: str) -> Any:
        if self.script.get("template fails"):
            raise UsageError("the chat template refuses a conversation", seen="x", remedy="y")
        texts = [
            "|".join(str(message["content"]) for message in item.messages or ()) + str(item.prompt or "")
            for item in conversations
        ]
        return tuple(tuple(ord(character) % 900 + 10 for character in text) for text in texts)

    def token_texts(self, token_ids: Sequence[int]) -> dict[int, str]:
        return {token: f"t{token}" for token in token_ids}

    def special_token_ids(self) -> dict[str, int]:
        return {"<think>": 4, "</think>": 5}

    def chat_template(self) -> str | None:
        return "template"

    def generate(
        self,
        prompts: Sequence[TokenizedPrompt],
        sampling: Any,
        *,
        capture: bool,
        logprobs: bool = False,
        max_concurrency: int | None = None,
        fresh: bool = True,
        on_progress: Any = None,
    ) -> Generation:
        self.asked.append(list(prompts))
        dies = self.script.get("dies")
        if dies == (self.options.arm, len(self.asked)):
            raise EngineError("the scripted engine died", seen="exit status 7", remedy="read the log")
        if self.script.get("interrupted") == self.options.arm:
            raise KeyboardInterrupt
        speculative = self.options.arm == "speculative"
        requests = tuple(self._answer(prompt, speculative and capture, logprobs) for prompt in prompts)
        level = self.script.get("level", "token")
        return make_generation(
            requests,
            arm=self.options.arm,
            captured=capture and speculative,
            capture=CaptureReport(level=level, reason=self.script.get("reason", ""), max_logit=8.0)
            if capture and speculative
            else None,
        )

    def _answer(self, prompt: TokenizedPrompt, with_steps: bool, logprobs: bool) -> RequestTrace:
        made = make_request(
            prompt.prompt_id, prompt.category, accepted=(3, 0, K), prompt_len=len(prompt.token_ids)
        )
        output = list(made.output_ids)
        if self.options.arm == "target-only" and prompt.prompt_id in self.script.get("parted", ()):
            output[2] += 1
        values = tuple(-0.1 for _ in output) if logprobs else None
        return make_request(
            prompt.prompt_id,
            prompt.category,
            accepted=(3, 0, K),
            prompt_len=len(prompt.token_ids),
            prompt_ids=prompt.token_ids,
            output_ids=tuple(output),
            text=f"answer to {prompt.prompt_id}",
            output_logprobs=values,
            runner_up_logprobs=values,
            **({} if with_steps else {"steps": None, "counters": None}),
        )

    def score(self, continuations: Sequence[Continuation]) -> Any:
        if self.script.get("cannot score"):
            raise EngineError("no scores", seen="none", remedy="none")
        return tuple((-0.1, self.script.get("speculative logprob", -5.0)) for _ in continuations)

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> ScriptedEngine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Scripted:
    """Runs sessions on scripted engines."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.engines: list[ScriptedEngine] = []
        self.script: dict[str, Any] = {}
        monkeypatch.setattr(collect, "open_engine", self._open)

    def _open(self, name: str, options: EngineOptions) -> ScriptedEngine:
        failure = self.script.get("cannot open", {}).get(options.arm)
        if failure is not None:
            raise failure
        engine = ScriptedEngine(options, self.script)
        self.engines.append(engine)
        return engine

    def run(self, lines: Sequence[dict[str, Any]] | None = None, **script: Any) -> RunRecord:
        self.script.update(script)
        prompts = self.folder / "p.jsonl"
        lines = lines or [
            {"id": f"p{i}", "category": "ab"[i % 2], "prompt": "x" * (5 + i)} for i in range(20)
        ]
        prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
        settings = Settings(
            target=str(PAIR / "target"),
            draft=str(PAIR / "draft"),
            prompts=str(prompts),
            output=str(self.folder / "run"),
            experiments="off",  # the script's answers are not the target's
        )
        result = session.run(settings, origins={"target": "command line"})
        assert read_record(self.folder / "run")[0] == result.record
        assert read_traces(self.folder / "run" / "traces.jsonl") == result.evidence
        return result.record


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    return Scripted(tmp_path, monkeypatch)


def test_run_when_all_goes_well_then_passes_and_closes_both_engines(scripted: Scripted) -> None:
    record = scripted.run()
    assert record.verdict == "passed"
    assert record.incomplete is None
    assert [engine.options.arm for engine in scripted.engines] == ["speculative", "target-only"]
    assert all(engine.closed for engine in scripted.engines)
    assert record.workload is not None
    assert record.workload.categories == {"a": 10, "b": 10}
    assert record.workload.chat_template_sha256 is not None
    assert record.pair.target_sha256 != record.pair.draft_sha256
    assert record.setting_origins == {"target": "command line"}
    assert [phase.completed for phase in record.phases] == [True] * len(record.phases)
    assert record.metrics.lossless is not None
    assert record.metrics.lossless.num_identical == 20
    # The target-only engine gets no drafter and no K.
    assert scripted.engines[1].options.draft is None
    assert scripted.engines[1].options.num_speculative_tokens is None


@pytest.mark.parametrize(
    ("dies", "learnt"),
    [
        (("speculative", 1), (False, False, False)),
        (("speculative", 2), (True, False, False)),
        (("target-only", 1), (True, True, False)),
        (("target-only", 3), (True, True, False)),
    ],
)
def test_run_when_an_engine_dies_then_what_came_before_is_kept(
    scripted: Scripted, dies: tuple[str, int], learnt: tuple[bool, bool, bool]
) -> None:
    record = scripted.run(dies=dies)
    assert record.verdict == "errored"
    assert record.incomplete is not None
    assert record.incomplete.startswith("the scripted engine died")
    assert record.engine is not None
    evidence = read_traces(scripted.folder / "run" / "traces.jsonl")
    passes = (evidence.speculative, evidence.speculative_timing, evidence.target_only)
    assert tuple(item is not None for item in passes) == learnt
    assert not [phase for phase in record.phases if phase.name == "generating"][-1].completed
    assert all(engine.closed for engine in scripted.engines)
    assert (scripted.folder / "run" / "report.html").exists()


def test_run_when_the_engine_cannot_start_then_the_record_says_why(scripted: Scripted) -> None:
    record = scripted.run(
        **{"cannot open": {"speculative": EngineError("it did not start", seen="no memory")}}
    )
    assert record.verdict == "errored"
    assert record.summary == "it did not start"
    assert record.engine is None
    assert record.metrics.overall is None


def test_run_when_outputs_part_clearly_then_fails_and_names_the_cause(scripted: Scripted) -> None:
    record = scripted.run(parted=("p3",))
    assert record.verdict == "failed"
    assert record.summary.startswith("DF301")
    assert record.diagnosis[0].cause == "verification-not-enforced"


def test_run_when_outputs_part_at_a_tie_then_passes_with_a_note(scripted: Scripted) -> None:
    record = scripted.run(parted=("p3",), **{"speculative logprob": -0.1})
    assert record.verdict == "passed"
    assert record.metrics.lossless is not None
    assert record.metrics.lossless.num_ties == 1


def test_run_when_scores_fail_then_the_divergence_is_undecided_and_said_to_be(scripted: Scripted) -> None:
    record = scripted.run(parted=("p3",), **{"cannot score": True})
    verdicts = {check.code: check.verdict for check in record.checks}
    assert verdicts["DF301"] == "inconclusive"
    assert verdicts["DF803"] == "failed"


def test_run_when_the_capture_falls_short_then_it_is_a_finding(scripted: Scripted) -> None:
    record = scripted.run(level="step", reason="no hook in this version")
    absent = next(check for check in record.checks if check.code == "DF803")
    assert absent.verdict == "failed"
    assert "no hook in this version" in absent.findings[0].observed
    assert record.level == "step"


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ({"template fails": True}, UsageError),
        ({"cannot open": {"target-only": UsageError("no such argument")}}, UsageError),
    ],
)
def test_run_when_it_was_wrong_to_ask_then_raises_and_leaves_nothing(
    scripted: Scripted, script: dict[str, Any], kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        scripted.run(**script)
    assert not (scripted.folder / "run").exists()


def test_run_when_the_engine_is_missing_then_the_static_checks_are_run_and_written(
    scripted: Scripted,
) -> None:
    error = EngineMissingError("vLLM is not installed", remedy="pip install vllm")
    record = scripted.run(**{"cannot open": {"speculative": error}})
    assert (record.verdict, record.summary) == ("errored", "vLLM is not installed")
    verdicts = {check.code: check.verdict for check in record.checks}
    assert verdicts["DF102"] == "passed"
    assert verdicts["DF301"] == "skipped"


def test_run_when_it_was_wrong_to_ask_without_an_output_then_leaves_no_folder(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scripted.folder)
    scripted.script["template fails"] = True
    settings = Settings(target=str(PAIR / "target"), draft=str(PAIR / "draft"), max_prompts=1)
    with pytest.raises(UsageError):
        session.run(settings)
    assert not (scripted.folder / ".dflash").exists()


def test_run_when_asked_wrongly_in_a_folder_in_use_then_other_files_stay(scripted: Scripted) -> None:
    (scripted.folder / "run").mkdir()
    (scripted.folder / "run" / "mine.txt").write_text("keep")
    with pytest.raises(UsageError):
        scripted.run(**{"template fails": True})
    assert (scripted.folder / "run" / "mine.txt").read_text() == "keep"


def test_run_when_interrupted_then_writes_and_raises(scripted: Scripted) -> None:
    with pytest.raises(KeyboardInterrupt, match="what was learnt is in"):
        scripted.run(interrupted="target-only")
    record, _ = read_record(scripted.folder / "run")
    assert record.incomplete == "interrupted by the user"
    assert record.metrics.overall is not None


def test_run_when_conversations_have_turns_then_both_arms_see_the_same_frozen_answers(
    scripted: Scripted,
) -> None:
    lines = [
        {"id": "long", "category": "c", "turns": ["one", "two", "three"]},
        {"id": "single", "category": "c", "prompt": "x"},
        {"id": "short", "category": "c", "turns": ["a", "b"]},
    ]
    scripted.run(lines)
    speculative, target_only = scripted.engines
    rounds = [[item.prompt_id for item in batch] for batch in speculative.asked[:3]]
    assert rounds == [["long#1", "single", "short#1"], ["long#2", "short#2"], ["long#3"]]
    everything = [item for batch in speculative.asked[:3] for item in batch]
    assert speculative.asked[3] == everything
    assert target_only.asked[-1] == everything
    third = speculative.asked[2][0].token_ids
    frozen = "one|answer to long#1|two|answer to long#2|three"
    assert third == tuple(ord(character) % 900 + 10 for character in frozen)


def test_run_when_a_prompt_does_not_fit_the_engine_then_it_is_left_out_and_said(scripted: Scripted) -> None:
    record = scripted.run(max_model_len=20)
    note = next(check for check in record.checks if check.code == "DF803")
    assert note.verdict == "passed"
    assert "5 prompts are longer" in note.findings[0].observed
    assert record.metrics.overall is not None
    assert record.metrics.overall.num_requests == 15


def test_run_when_no_prompt_fits_then_is_a_usage_error(scripted: Scripted) -> None:
    with pytest.raises(UsageError, match="too long"):
        scripted.run(max_model_len=3)
