"""Each identity fires on the lie it is made for, and honest numbers fire none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from evidence_factory import make_generation, make_request
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.evidence import EngineCounters, RequestTrace
from dflash_doctor.metrics.identities import identity_violations


def names(request: RequestTrace) -> set[str]:
    return {item.identity for item in identity_violations(make_generation([request]))}


def with_counters(**changes: Any) -> RequestTrace:
    request = make_request(accepted=(3, 0, 7))
    assert request.counters is not None
    return msgspec.structs.replace(request, counters=msgspec.structs.replace(request.counters, **changes))


@given(st.lists(st.integers(0, 7), min_size=1, max_size=20), st.booleans())
def test_identities_when_the_engine_is_honest_then_all_hold(walk: list[int], with_ids: bool) -> None:
    assert names(make_request(accepted=walk, with_ids=with_ids)) == set()


@given(st.lists(st.integers(0, 7), min_size=2, max_size=10), st.data())
def test_identities_when_the_text_ends_inside_the_last_step_then_all_hold(walk: list[int], data: Any) -> None:
    request = make_request(accepted=walk)
    surplus = data.draw(st.integers(0, walk[-1]))
    cut = request.output_ids[: len(request.output_ids) - surplus]
    assert names(msgspec.structs.replace(request, output_ids=cut)) == set()


@pytest.mark.parametrize(
    ("changes", "identity"),
    [
        ({"num_draft_tokens": 5}, "accepted-within-drafted"),
        ({"acceptance_histogram": (1, 0, 0, 1, 0, 0, 0, 0)}, "histogram-sums-to-steps"),
        ({"acceptance_histogram": (2, 0, 0, 0, 0, 0, 0, 1)}, "histogram-weighs-accepted"),
        ({"per_step_accepted": (3, 1, 7)}, "per-step-sums-to-total"),
        ({"per_step_drafted": (7, 7, 7, 0)}, "per-step-counts-steps"),
        ({"mean_acceptance_length": 21 / 3}, "acceptance-length-from-counts"),
        ({"draft_acceptance_rate": 47.6}, "acceptance-rate-from-counts"),
        ({"per_step_accepted": (7, 0, 3)}, "captured-steps-match-engine"),
        ({"accepted_per_position": (1, 1)}, "positions-sum-to-accepted"),
    ],
)
def test_identities_when_a_counter_lies_then_its_identity_is_named(changes: dict, identity: str) -> None:
    assert identity in names(with_counters(**changes))


def test_identities_when_steps_do_not_account_for_the_text_then_it_is_named() -> None:
    request = make_request(accepted=(3, 0))
    longer = msgspec.structs.replace(request, output_ids=(*request.output_ids, 1, 2, 3))
    assert "steps-account-for-output" in names(longer)
    shorter = msgspec.structs.replace(request, output_ids=request.output_ids[:2])
    assert "steps-account-for-output" in names(shorter)


def test_identities_when_an_accepted_token_was_not_drafted_then_it_is_named() -> None:
    request = make_request(accepted=(3,))
    assert request.steps is not None
    step = request.steps[0]
    assert step.draft_ids is not None
    other = msgspec.structs.replace(step, draft_ids=(step.draft_ids[0] + 1, *step.draft_ids[1:]))
    assert "accepted-tokens-are-drafts" in names(msgspec.structs.replace(request, steps=(other,)))


def test_identities_when_the_text_is_not_what_the_steps_emitted_then_it_is_named() -> None:
    request = make_request(accepted=(3, 2))
    changed = (*request.output_ids[:2], request.output_ids[2] + 1, *request.output_ids[3:])
    assert "emitted-tokens-are-the-text" in names(msgspec.structs.replace(request, output_ids=changed))


def test_identities_when_a_step_accepts_more_than_it_drafted_then_it_is_named() -> None:
    request = make_request(accepted=(3,))
    assert request.steps is not None
    impossible = msgspec.structs.replace(request.steps[0], num_accepted=9)
    found = names(msgspec.structs.replace(request, steps=(impossible,), counters=None))
    assert "accepted-within-drafted" in found


def test_identities_when_server_positions_do_not_sum_then_it_is_named() -> None:
    # A published line: positions summing to 1.37 beside 10 accepted of 8 steps.
    counters = EngineCounters(num_drafts=8, num_accepted_draft_tokens=10, accepted_per_position=(5, 3, 1))
    generation = make_generation([make_request()], server_counters=counters)
    violations = identity_violations(generation)
    assert [(item.identity, item.prompt_id) for item in violations] == [("positions-sum-to-accepted", None)]
