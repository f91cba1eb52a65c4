"""Patterns in drafts are seen where they are, and not where a text merely repeats itself."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.evidence import RequestTrace, VerifyStep
from dflash_doctor.metrics.patterns import empty_drafts, id_offset, loss_after_rejection
from dflash_doctor.trials import ReferenceText


def request(drafts: list[tuple[int, tuple[int, ...]]], name: str = "r") -> RequestTrace:
    return RequestTrace(
        prompt_id=name,
        category="c",
        prompt_ids=(1, 2),
        output_ids=(3,) * 200,
        steps=tuple(
            VerifyStep(num_drafted=len(ids), num_accepted=0, position=position, draft_ids=ids)
            for position, ids in drafts
        ),
    )


def text(**fields: object) -> ReferenceText:
    given_ = {
        "prompt_id": "p",
        "category": "c",
        "num_prompt_tokens": 4,
        "accepted": (),
        "steps": (),
        "target_equal": 0,
        "num_answer_tokens": 10,
    }
    return ReferenceText(**{**given_, **fields})  # type: ignore[arg-type]


def test_empty_drafts_when_they_begin_at_a_length_then_says_which() -> None:
    steps = [(place, (0, 0, 0) if place >= 60 else (5, 6, 7)) for place in range(10, 110, 5)]
    found = empty_drafts([request(steps)])
    assert (found.num_drafts, found.num_empty, found.past_length) == (20, 10, 60)


def test_empty_drafts_when_they_come_at_times_then_no_length_is_named() -> None:
    generator = random.Random(0)
    steps = [(place, (0, 1, 2) if generator.random() < 0.3 else (5, 0, 7)) for place in range(10, 400, 3)]
    found = empty_drafts([request(steps)])
    assert 20 < found.num_empty < 60
    assert found.past_length is None


def test_empty_drafts_when_all_or_none_are_then_no_length_is_named() -> None:
    for ids, count in (((0, 0), 3), ((4, 4), 0)):
        found = empty_drafts([request([(1, ids), (2, ids), (3, ids)])])
        assert (found.num_empty, found.past_length) == (count, None)


@given(st.lists(st.tuples(st.integers(1, 300), st.booleans()), max_size=80))
def test_empty_drafts_when_a_length_is_named_then_hardly_any_draft_is_on_the_wrong_side(
    places: list[tuple[int, bool]],
) -> None:
    found = empty_drafts([request([(place, (0, 0) if empty else (7, 8)) for place, empty in places])])
    assert found.num_empty == sum(empty for _, empty in places)
    if found.past_length is not None:
        wrong = sum(empty != (place >= found.past_length) for place, empty in places)
        # Drafts of the same position may stand on either side of the cut.
        same = sum(place == found.past_length for place, _ in places)
        assert wrong <= 0.05 * len(places) + same


def test_id_offset_when_ids_are_lowered_then_finds_by_how_much() -> None:
    found = id_offset(
        [
            text(engine_equal=60, engine_compared=100, engine_offsets={-7: 30, 12: 4, 3: 6}),
            text(engine_equal=50, engine_compared=70, engine_offsets={-7: 15, 90: 5}),
        ]
    )
    assert found is not None
    assert (found.offset, found.num_drafts, found.num_unequal, found.num_compared) == (-7, 45, 60, 170)
    assert id_offset([text(engine_equal=10, engine_compared=10)]) is None
    assert id_offset([]) is None


def test_loss_after_rejection_when_only_refusals_hurt_then_the_two_shares_part() -> None:
    texts = [
        text(engine_equal=95 + index, engine_compared=150, equal_after_rejection=(20 + index % 3, 70))
        for index in range(5)
    ]
    after, others = loss_after_rejection(texts)
    assert after.value is not None
    assert others.value is not None
    assert after.high is not None
    assert others.low is not None
    assert after.value < 0.35
    assert others.value > 0.9
    assert after.high < others.low
