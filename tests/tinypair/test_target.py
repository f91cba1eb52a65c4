"""Training and greedy decoding of the tiny target."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="training needs torch")
pytest.importorskip("transformers", reason="the target is a Transformers model")

from dflash_doctor.tinypair.shape import PairShape, Recipe  # noqa: E402
from dflash_doctor.tinypair.target import adamw, build_target, complete, set_rate, train_target  # noqa: E402

SMALL = PairShape(
    vocab_size=32, hidden_size=32, intermediate_size=48, num_attention_heads=1, num_key_value_heads=1
)


@pytest.fixture
def target() -> Any:
    torch.manual_seed(0)
    return build_target(SMALL).eval()


def test_train_target_when_texts_repeat_then_learns_them(target: Any) -> None:
    """Answers follow from prompts, so a model that learns them from the prompt has hardly any loss left."""
    examples = [([5, first, first + 1, first + 2, 2], 2) for first in range(6, 20)]
    recipe = Recipe(target_steps=60, target_batch=14)
    losses: list[float] = []
    final = train_target(target, examples, recipe, seed=0, report=lambda _s, _n, loss: losses.append(loss))
    assert losses[0] > 3
    assert final < 0.3
    assert complete(target, [[5, 9]], end_id=2, max_tokens=8) == [[10, 11, 2]]


def test_complete_when_prompts_share_a_batch_then_answers_are_those_of_each_alone(target: Any) -> None:
    prompts = [[4, 5, 6], [7, 8, 9], [10, 11], [4, 5, 7]]
    together = complete(target, prompts, end_id=2, max_tokens=6)
    alone = [complete(target, [prompt], end_id=2, max_tokens=6)[0] for prompt in prompts]
    assert together == alone
    assert all(1 <= len(answer) <= 6 for answer in together)


def test_complete_when_an_answer_ends_then_stops_with_the_end_token(target: Any) -> None:
    first = complete(target, [[4, 5, 6]], end_id=99, max_tokens=5)[0]
    assert len(first) == 5
    end = first[2]
    assert complete(target, [[4, 5, 6]], end_id=end, max_tokens=5) == [first[: first.index(end) + 1]]


def test_set_rate_when_training_goes_on_then_rises_stays_and_falls() -> None:
    optimizer = adamw(torch.nn.Linear(2, 2), 1.0)
    rates = []
    for step in range(1000):
        set_rate(optimizer, 1.0, step, 1000)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates[0] == pytest.approx(1 / 50)
    assert rates[100] == rates[600] == 1.0
    assert rates[-1] == pytest.approx(0.05, abs=0.01)
    assert rates[:50] == sorted(rates[:50])
    assert rates[601:] == sorted(rates[601:], reverse=True)


def test_adamw_when_given_a_model_then_decays_matrices_only() -> None:
    matrices, vectors = adamw(torch.nn.Linear(3, 2), 1.0).param_groups
    assert [tuple(p.shape) for p in matrices["params"]] == [(2, 3)]
    assert [tuple(p.shape) for p in vectors["params"]] == [(2,)]
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.1, 0.0)
