"""The engine asked otherwise: what is compared, what is left out, and that nothing raises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from evidence_factory import make_generation, make_request

from dflash_doctor.engines.base import Capabilities, TokenizedPrompt
from dflash_doctor.errors import EngineError
from dflash_doctor.evidence import EngineFacts, Evidence, Generation
from dflash_doctor.metrics.trials import trial_effect
from dflash_doctor.plan import Plan, make_plan
from dflash_doctor.probes import engine_trials
from dflash_doctor.probes.engine_trials import ENGINE_SETTINGS, is_called_for, observe_engine_trials
from dflash_doctor.probes.live_trials import acceptance_counts, observe_live_trials
from dflash_doctor.session import Quiet
from dflash_doctor.settings import Settings

PAIR = Path(__file__).resolve().parent.parent.parent / "fixtures" / "tiny_pair"


def plan_of(**settings: Any) -> Plan:
    given: dict[str, Any] = {"target": str(PAIR / "target"), "draft": str(PAIR / "draft"), "max_prompts": 10}
    return make_plan(Settings(**{**given, **settings}), run_id="r")


def requests_of(plan: Plan) -> list[TokenizedPrompt]:
    return [
        TokenizedPrompt(prompt_id=prompt.id, category=prompt.category, token_ids=(1, 2, index))
        for index, prompt in enumerate(plan.prompts)
    ]


class Engine:
    """Accepts `together` of 7 drafts in a batch, `alone` one at a time; may fail."""

    def __init__(self, *, together: int = 1, alone: int = 1, cached: int = 0, fails: bool = False) -> None:
        self.together, self.alone, self.cached, self.fails = together, alone, cached, fails
        self.asked: list[dict[str, Any]] = []

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            level="token", arms=("speculative",), can_score=True, can_sample=True, can_render=False
        )

    def generate(self, prompts: Any, sampling: Any, **how: Any) -> Generation:
        if self.fails and self.asked:
            raise EngineError("it died", seen="", remedy="")
        self.asked.append(how)
        accepted = self.alone if how.get("max_concurrency") == 1 else self.together
        return make_generation(
            [
                msgspec.structs.replace(
                    make_request(prompt.prompt_id, accepted=[accepted] * (5 + index % 3)),
                    num_cached_prompt_tokens=None if how.get("fresh", True) else self.cached,
                )
                for index, prompt in enumerate(prompts)
            ]
        )

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def observed(engine: Engine, plan: Plan) -> Any:
    return observe_live_trials(engine, plan, requests_of(plan), watcher=Quiet())  # type: ignore[arg-type]


def test_live_trials_when_batching_hurts_then_one_at_a_time_explains_it() -> None:
    trials, unchanged, not_tried = observed(Engine(together=1, alone=4), plan_of())
    assert [trial.name for trial in trials] == ["one request at a time"]
    assert trial_effect(trials[0]).verdict == "explains"
    assert unchanged is not None
    assert len(not_tried) == 1
    assert "gave nothing back" in not_tried[0]


def test_live_trials_when_prompts_come_from_the_cache_then_cold_and_warm_are_compared() -> None:
    trials, _, _ = observed(Engine(cached=16), plan_of())
    assert [trial.name for trial in trials] == ["cold prefix cache", "one request at a time"]
    assert trial_effect(trials[0]).verdict == "no effect"


def test_live_trials_when_experiments_are_off_or_not_greedy_then_nothing_is_asked() -> None:
    for settings in ({"experiments": "off"}, {"temperature": 1.0}):
        engine = Engine()
        assert observed(engine, plan_of(**settings)) == ((), None, ())
        assert engine.asked == []


def test_live_trials_when_the_engine_fails_then_says_so_and_keeps_what_there_is() -> None:
    trials, unchanged, not_tried = observed(Engine(fails=True), plan_of())
    assert trials == ()
    assert unchanged is not None
    assert not_tried == ("the engine failed when asked in another way: it died",)


def test_acceptance_counts_when_a_prompt_has_no_steps_then_it_is_left_out() -> None:
    left = make_generation([make_request("a", accepted=[3, 3]), make_request("b", accepted=[])])
    counts = acceptance_counts(left, left)
    assert counts is not None
    assert (counts.prompt_ids, counts.before, counts.size_before) == (("a",), (8,), (2,))
    assert acceptance_counts(make_generation([]), left) is None


def test_engine_trials_when_almost_nothing_is_accepted_then_settings_are_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[dict[str, Any]] = []

    def open_engine(_name: str, options: Any) -> Engine:
        started.append({**options.engine_args, **options.environment})
        if "async_scheduling" in options.engine_args:
            raise EngineError("it did not start", seen="", remedy="")
        return Engine(together=5)

    monkeypatch.setattr(engine_trials, "open_engine", open_engine)
    plan = plan_of()
    facts = EngineFacts(
        name="vllm", enforce_eager=False, prefix_caching=True, async_scheduling=True, dtype="bfloat16"
    )
    unchanged = make_generation(
        [make_request(item.prompt_id, accepted=[0] * 6) for item in requests_of(plan)]
    )
    evidence = observe_engine_trials(
        plan, Evidence(facts=facts), unchanged, requests_of(plan), log_path=tmp_path / "log", watcher=Quiet(),
        keep=lambda _: None,
    )  # fmt: skip
    assert started == [{"enforce_eager": True}, {"enable_prefix_caching": False}, {"async_scheduling": False}]
    assert evidence.experiments is not None
    eager, _, scheduling = evidence.experiments.trials
    assert trial_effect(eager).verdict == "explains"
    assert scheduling.failed == "it did not start"


def test_engine_trials_when_drafts_are_accepted_then_the_engine_is_left_alone(tmp_path: Path) -> None:
    good = make_generation([make_request("a", accepted=[4] * 6)])
    assert not is_called_for(None, good)
    assert is_called_for(None, make_generation([make_request("a", accepted=[0] * 6)]))
    evidence = Evidence(facts=EngineFacts(name="vllm", enforce_eager=False))
    assert (
        observe_engine_trials(
            plan_of(), evidence, good, [], log_path=tmp_path / "log", watcher=Quiet(), keep=lambda _: None
        )
        is evidence
    )


def test_engine_settings_when_listed_then_have_names_of_their_own() -> None:
    assert len({item.name for item in ENGINE_SETTINGS}) == len(ENGINE_SETTINGS)
