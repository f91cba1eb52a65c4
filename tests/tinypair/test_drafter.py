"""The drafter is trained on the arithmetic with which it is used, and walked as an engine verifies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the drafter needs torch")

from dflash_doctor.reference.dflash import Drafter, draft_block  # noqa: E402
from dflash_doctor.tinypair.drafter import (  # noqa: E402
    Completed,
    block_mask,
    drafter_config,
    train_drafter,
    walk,
)
from dflash_doctor.tinypair.shape import PairShape, Recipe  # noqa: E402

SHAPE = PairShape(
    vocab_size=24,
    hidden_size=32,
    intermediate_size=48,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=16,
    block_size=4,
    target_layer_ids=(0, 1),
)


def modules(seed: int) -> tuple[Drafter, Any, Any]:
    """Drafter, embedding and head with weights drawn from the seed."""
    torch.manual_seed(seed)
    embedding = torch.nn.Embedding(24, 32).requires_grad_(False)
    head = torch.nn.Linear(32, 24, bias=False).requires_grad_(False)
    return Drafter(drafter_config(SHAPE)).eval(), embedding, head


def completed(tokens: list[int], num_prompt: int, seed: int = 0) -> Completed:
    generator = torch.Generator().manual_seed(seed)
    return Completed(torch.tensor(tokens), num_prompt, torch.randn(len(tokens), 2 * 32, generator=generator))


def test_block_mask_when_blocks_stand_side_by_side_then_each_sees_its_context_and_itself() -> None:
    mask = block_mask(torch.tensor([[2, 4]]), width=2, num_context=5)
    assert mask.shape == (1, 4, 9)
    assert mask[0].int().tolist() == [
        [1, 1, 0, 0, 0, 1, 1, 0, 0],
        [1, 1, 0, 0, 0, 1, 1, 0, 0],
        [1, 1, 1, 1, 0, 0, 0, 1, 1],
        [1, 1, 1, 1, 0, 0, 0, 1, 1],
    ]


@torch.inference_mode()
def test_drafter_when_blocks_are_packed_as_in_training_then_drafts_as_one_block_at_a_time() -> None:
    drafter, embedding, head = modules(1)
    item = completed([4, 5, 6, 7, 8, 9, 10, 11, 12, 13], num_prompt=3)
    anchors = torch.tensor([[3, 5, 6]])
    places = anchors[:, :, None] + torch.arange(4)
    slots = torch.full_like(places, SHAPE.mask_token_id)
    slots[:, :, 0] = item.tokens[anchors]
    hidden = drafter(
        embedding(slots.flatten(1)),
        drafter.context_of(item.features[None]),
        places.flatten(1),
        torch.arange(10)[None],
        block_mask(anchors, 4, 10),
    )
    packed = head(hidden.view(3, 4, -1)[:, 1:])
    for row, anchor in enumerate((3, 5, 6)):
        alone = draft_block(drafter, embedding, head, item.features[:anchor], int(item.tokens[anchor]))
        assert torch.allclose(packed[row], alone, atol=1e-5)


def test_train_drafter_when_texts_repeat_then_learns_them_and_leaves_the_target_alone() -> None:
    drafter, embedding, head = modules(2)
    before = embedding.weight.clone(), head.weight.clone()
    items = [completed([5, 6, *range(7, 7 + n)], num_prompt=2, seed=n) for n in (6, 8, 10)]
    recipe = Recipe(draft_steps=60, draft_batch=3, draft_anchors=4)
    losses: list[float] = []
    train_drafter(
        drafter, embedding, head, items, recipe, seed=0, report=lambda _s, _n, loss: losses.append(loss)
    )
    assert losses[-1] < losses[0] / 3
    assert torch.equal(embedding.weight, before[0])
    assert torch.equal(head.weight, before[1])
    assert sum(walk(drafter, embedding, head, items[-1])) > 3


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 23), min_size=3, max_size=30), st.integers(1, 20), st.integers(0, 3))
def test_walk_when_any_text_is_walked_then_steps_cover_the_answer(
    tokens: list[int], num_prompt: int, seed: int
) -> None:
    """Each step yields its accepted tokens and one of the target's; the last may end with the text itself."""
    num_prompt = min(num_prompt, len(tokens) - 1)
    drafter, embedding, head = modules(seed)
    accepted = walk(drafter, embedding, head, completed(tokens, num_prompt, seed))
    drafted = len(tokens) - num_prompt - 1
    assert all(0 <= count <= SHAPE.block_size - 1 for count in accepted)
    assert drafted <= sum(accepted) + len(accepted) <= drafted + 1
