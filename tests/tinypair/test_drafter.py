"""The drafter is trained on the arithmetic with which it is used, and walked as an engine verifies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the drafter needs torch")

from dflash_doctor.reference.dflash import Alignment, Drafter, Geometry  # noqa: E402
from dflash_doctor.reference.drafting import walk  # noqa: E402
from dflash_doctor.tinypair.drafter import Completed, drafter_config, train_drafter  # noqa: E402
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


def geometry(anchors: list[int], *, width: int, num_context: int, **defects: Any) -> Geometry:
    starts = torch.tensor([anchors])
    return Geometry(
        context_positions=torch.arange(num_context)[None],
        slot_positions=(starts[:, :, None] + torch.arange(width)).flatten(1),
        anchors=starts,
        width=width,
        alignment=Alignment(**defects),
    )


def test_geometry_when_blocks_stand_side_by_side_then_each_sees_the_text_before_its_anchor() -> None:
    place = geometry([2, 4], width=2, num_context=5)
    assert place.sees_context(None)[0].int().tolist() == [
        [1, 1, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 1, 1, 0],
    ]
    assert place.sees_block(None, causal=False).all()
    assert place.sees_block(None, causal=True).int().tolist() == [[1, 0], [1, 1]]


def test_geometry_when_there_is_a_window_then_a_slot_sees_keys_nearer_than_it() -> None:
    place = geometry([4], width=3, num_context=5)
    assert place.sees_context(3)[0].int().tolist() == [[0, 0, 1, 1, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]]
    assert place.sees_block(2, causal=False).int().tolist() == [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    assert place.sees_block(2, causal=True).int().tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]


def test_geometry_when_rows_are_missing_then_nobody_sees_them() -> None:
    place = geometry([4], width=1, num_context=6, context_end=1)
    assert place.sees_context(None)[0].int().tolist() == [[1, 1, 1, 0, 0, 0]]


def test_geometry_when_rows_were_never_written_then_they_are_zero_and_seen() -> None:
    place = geometry([6], width=1, num_context=8, erased_first=1, erased_of_every=(1, 4))
    written = place.written()
    assert written is not None
    assert written[:, 0].int().tolist() == [0, 1, 1, 1, 0, 1, 1, 1]
    assert geometry([6], width=1, num_context=8).written() is None


@torch.inference_mode()
def test_drafter_when_texts_of_two_lengths_are_packed_then_drafts_as_each_alone() -> None:
    """As in training: padding behind a text and other blocks of it change nothing."""
    drafter, embedding, head = modules(1)
    short = completed([4, 5, 6, 7, 8, 9, 10], num_prompt=3)
    long = completed([4, 5, 6, 7, 8, 9, 10, 11, 12, 13], num_prompt=3, seed=1)
    features = torch.stack([torch.nn.functional.pad(short.features, (0, 0, 0, 3)), long.features])
    anchors = torch.tensor([[3, 5], [4, 6]])
    slots = torch.full((2, 2, 4), SHAPE.mask_token_id)
    slots[0, :, 0], slots[1, :, 0] = short.tokens[anchors[0]], long.tokens[anchors[1]]
    packed = head(drafter(embedding(slots), drafter.context_of(features), anchors))
    for row, item in enumerate((short, long)):
        for column in (0, 1):
            anchor = anchors[row : row + 1, column : column + 1]
            context = drafter.context_of(item.features[None, : int(anchor)])
            alone = head(drafter(embedding(slots[row : row + 1, column : column + 1]), context, anchor))
            assert torch.allclose(packed[row, column], alone[0, 0], atol=1e-5)


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
    with torch.inference_mode():
        item = items[-1]
        slots = torch.full((1, 1, 4), SHAPE.mask_token_id)
        slots[0, 0, 0] = item.tokens[2]
        hidden = drafter(embedding(slots), drafter.context_of(item.features[None]), torch.tensor([[2]]))
        assert head(hidden)[0, 0, 1:].argmax(-1).tolist() == item.tokens[3:6].tolist()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 7), min_size=2, max_size=40), st.integers(1, 20))
def test_walk_when_any_text_is_walked_then_steps_cover_the_answer(counts: list[int], num_prompt: int) -> None:
    """Each step yields its accepted tokens and one of the target's; the last may end with the text itself."""
    num_tokens = num_prompt + len(counts) + 1
    inside = [min(count, len(counts) - index) for index, count in enumerate(counts)]
    steps = walk(inside, num_prompt, num_tokens)
    drafted = len(counts)
    assert drafted <= sum(steps) + len(steps) <= drafted + 1
