"""How one request is asked of Transformers, and where its text ends."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.engines.base import Sampling
from dflash_doctor.engines.transformers_request import (
    generation_config,
    output_logprobs,
    speculate,
    stop_after,
    token_budget,
    trimmed,
)
from dflash_doctor.errors import EngineError

TOKENS = st.lists(st.integers(0, 9), max_size=20)


@given(TOKENS, st.integers(1, 25), st.frozensets(st.integers(0, 9), max_size=2))
def test_trimmed_when_steps_overshoot_then_keeps_the_text_up_to_its_first_end(
    new_ids: list[int], budget: int, ends: frozenset[int]
) -> None:
    kept, reason = trimmed(new_ids, budget=budget, end_ids=tuple(ends))
    assert list(kept) == new_ids[: len(kept)]
    assert len(kept) <= budget
    assert not ends & set(kept[:-1])
    if reason == "stop":
        assert kept[-1] in ends
    else:
        assert not ends & set(kept)
        assert len(kept) == min(budget, len(new_ids))


@pytest.mark.parametrize(
    ("prompt_len", "max_model_len", "expected"), [(10, None, 50), (10, 100, 50), (80, 100, 20), (99, 100, 1)]
)
def test_token_budget_when_the_context_ends_first_then_is_what_fits(
    prompt_len: int, max_model_len: int | None, expected: int
) -> None:
    assert token_budget(prompt_len, Sampling(max_tokens=50), max_model_len=max_model_len) == expected


@pytest.mark.parametrize("prompt_len", [0, 100, 101])
def test_token_budget_when_there_is_no_room_then_says_the_lengths(prompt_len: int) -> None:
    with pytest.raises(EngineError, match="does not fit the model") as raised:
        token_budget(prompt_len, Sampling(), max_model_len=100)
    assert raised.value.seen == f"{prompt_len} tokens, the model takes 100"


@pytest.fixture
def torch() -> Any:
    pytest.importorskip("transformers", reason="these are Transformers objects")
    return pytest.importorskip("torch", reason="these are torch objects")


def test_generation_config_when_greedy_then_samples_nothing_and_ends_at_the_end_tokens(torch: Any) -> None:
    config = generation_config(Sampling(), budget=5, end_ids=(2, 7), logprobs=True)
    assert (config.do_sample, config.max_new_tokens, config.output_logits) == (False, 5, True)
    assert config.eos_token_id == [2, 7]


def test_generation_config_when_sampling_then_takes_every_parameter_from_the_run(torch: Any) -> None:
    sampling = Sampling(temperature=0.7, top_p=0.9, top_k=0)
    config = generation_config(sampling, budget=5, end_ids=(), logprobs=False)
    assert (config.do_sample, config.temperature, config.top_p, config.top_k) == (True, 0.7, 0.9, 0)
    assert config.eos_token_id is None


def test_speculate_when_applied_then_no_step_is_cut_at_the_end_or_the_limit(torch: Any) -> None:
    config = generation_config(Sampling(), budget=5, end_ids=(2,), logprobs=False)
    speculate(config, block_size=8)
    assert (config.speculation_type, config.eos_token_id) == ("dflash", None)
    assert config.max_new_tokens - 5 >= 8


@pytest.mark.parametrize(
    ("new_ids", "expected"),
    [([], False), ([4, 5], False), ([4, 5, 6], True), ([4, 2], True), ([2, 4], True), ([4, 5, 6, 7], True)],
)
def test_stop_after_when_an_end_token_or_the_budget_came_then_stops(
    new_ids: list[int], expected: bool, torch: Any
) -> None:
    criteria = stop_after(2, budget=3, end_ids=(2, 9), device="cpu")
    tokens = torch.tensor([[2, 9, *new_ids]])  # the prompt's own end tokens do not count
    assert criteria(tokens, None).tolist() == [expected]


def test_stop_after_when_ends_are_ignored_then_only_the_budget_stops(torch: Any) -> None:
    criteria = stop_after(0, budget=3, end_ids=(), device="cpu")
    assert criteria(torch.tensor([[2, 2]]), None).tolist() == [False]
    assert criteria(torch.tensor([[2, 2, 2]]), None).tolist() == [True]


def test_output_logprobs_when_the_best_was_or_was_not_chosen_then_the_runner_up_is_the_best_other(
    torch: Any,
) -> None:
    row = torch.tensor([[0.5, 0.3, 0.2]]).log()
    chosen, runner_up = output_logprobs([row, row, row], [0, 2])
    assert chosen == pytest.approx([math.log(0.5), math.log(0.2)])
    assert runner_up == pytest.approx([math.log(0.3), math.log(0.5)])


def test_output_logprobs_when_logits_are_too_few_then_raises(torch: Any) -> None:
    with pytest.raises(ValueError, match="shorter"):
        output_logprobs([torch.zeros(1, 3)], [0, 1])
