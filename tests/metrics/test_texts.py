"""Divergence, repetition, rejections and draft patterns, read off token ids."""

from __future__ import annotations

import msgspec
import pytest
from evidence_factory import make_evidence, make_request
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.evidence import Divergence, NumericNoise
from dflash_doctor.metrics.degeneracy import degeneracy_of
from dflash_doctor.metrics.divergence import first_divergence, kind_of, lossless_metrics
from dflash_doctor.metrics.rejections import rejection_metrics
from dflash_doctor.metrics.signatures import draft_signature

TOKENS = st.lists(st.integers(0, 5), max_size=30)


@given(TOKENS, TOKENS)
def test_first_divergence_when_two_texts_differ_then_everything_before_is_equal(
    left: list, right: list
) -> None:
    index = first_divergence(left, right)
    if index is None:
        assert left == right
    else:
        assert left[:index] == right[:index]
        assert left[index : index + 1] != right[index : index + 1]
    assert first_divergence(right, left) == index


def divergence(own: float | None, other: float | None) -> Divergence:
    return Divergence(
        prompt_id="r000",
        category="math",
        index=3,
        target_id=1,
        speculative_id=2,
        target_logprob=own,
        speculative_logprob=other,
    )


@pytest.mark.parametrize(
    ("own", "other", "margin", "kind"),
    [
        (-0.7, -0.7, 0.0, "tie"),
        (-0.65, -0.7, 0.0625, "tie"),
        (-0.6, -0.7, 0.0625, "fault"),
        (-0.7, -0.6, 0.0625, "fault"),
        (None, None, 0.1, "untriaged"),
        (-0.1, -0.2, None, "untriaged"),
    ],
)
def test_kind_of_when_the_gap_is_compared_with_the_margin_then_tells_ties_from_faults(
    own: float | None, other: float | None, margin: float | None, kind: str
) -> None:
    assert kind_of(divergence(own, other), tie_margin=margin) == kind


def test_lossless_metrics_when_outputs_part_then_each_is_counted_once() -> None:
    evidence = make_evidence(
        divergences=(divergence(-0.1, -0.15), divergence(-0.1, -9.0), divergence(None, None))
    )
    metrics = lossless_metrics(evidence)
    assert metrics is not None
    assert (metrics.num_compared, metrics.num_identical) == (8, 5)
    assert (metrics.num_ties, metrics.num_faults, metrics.num_untriaged) == (1, 1, 1)
    assert metrics.tie_margin == 0.125
    assert lossless_metrics(make_evidence(divergences=None)) is None


def test_tie_margin_when_measured_noise_is_larger_than_a_rounding_step_then_noise_counts() -> None:
    noise = NumericNoise(
        num_positions=1,
        max_logprob_gap_change=0.3,
        num_text_differences=0,
        num_requests=1,
        rounding_step=0.125,
    )
    assert noise.tie_margin == 0.3
    assert msgspec.structs.replace(noise, max_logprob_gap_change=0.0).tie_margin == 0.125


@given(TOKENS)
def test_degeneracy_when_given_any_text_then_stays_in_bounds(tokens: list[int]) -> None:
    found = degeneracy_of(tokens)
    assert found.num_tokens == len(tokens)
    assert 0 <= found.longest_equal_run <= len(tokens)
    assert found.longest_equal_run <= max(found.longest_periodic_run, 1)
    assert found.distinct_bigram_rate is None or 0 < found.distinct_bigram_rate <= 1


def test_degeneracy_when_a_text_loops_then_shows_run_and_period() -> None:
    assert degeneracy_of([1, 2, 9, 9, 9, 9, 3]).longest_equal_run == 4
    looped = degeneracy_of([5, *([1, 2, 3] * 10)])
    assert looped.longest_equal_run == 1
    assert looped.longest_periodic_run == 30
    assert looped.distinct_bigram_rate == pytest.approx(4 / 30)


def test_rejection_metrics_when_steps_end_in_rejections_then_counts_pairs_and_ranks() -> None:
    request = make_request(accepted=(0, 2, 7, 0))
    assert request.steps is not None
    first = request.steps[0]
    steps = (first, msgspec.structs.replace(request.steps[1], rejected_rank=40), request.steps[2], first)
    metrics = rejection_metrics(
        [msgspec.structs.replace(request, steps=steps)], label="x", token_texts={first.chosen_id or 0: "yes"}
    )
    assert (metrics.num_rejections, metrics.num_fully_accepted) == (3, 1)
    assert metrics.first_position_share == pytest.approx(2 / 3)
    assert metrics.near_miss_share == pytest.approx(2 / 3)
    assert metrics.rank_histogram == {"1": 0, "2": 2, "3-5": 0, "6-20": 0, "21+": 1}
    top = metrics.pairs[0]
    assert (top.count, top.drafted_id, top.chosen_text) == (2, first.rejected_id, "yes")
    assert top.drafted_text == f"<{first.rejected_id}>"
    assert top.mean_rejected_logprob == -2.5


def test_rejection_metrics_when_a_draft_is_refused_past_the_end_then_it_is_left_out() -> None:
    request = make_request(accepted=(2, 3))
    # The text ends at the second accepted token of the last step; what it refuses stands behind that.
    cut = msgspec.structs.replace(request, output_ids=request.output_ids[:-2])
    assert rejection_metrics([request], label="x", token_texts={}).num_rejections == 2
    metrics = rejection_metrics([cut], label="x", token_texts={})
    assert metrics.num_rejections == 1
    assert metrics.pairs[0].drafted_id == request.steps[0].rejected_id  # type: ignore[index]


def test_rejection_metrics_when_ids_are_unknown_then_has_counts_but_no_pairs() -> None:
    metrics = rejection_metrics([make_request(with_ids=False)], label="x", token_texts={})
    assert metrics.num_rejections == 2
    assert metrics.pairs == ()
    assert metrics.near_miss_share is None


def test_draft_signature_when_drafts_are_one_place_late_then_the_shift_agrees() -> None:
    request = make_request(accepted=(0,) * 12)
    tokens = request.prompt_ids + request.output_ids
    assert request.steps is not None
    late = tuple(
        msgspec.structs.replace(step, draft_ids=tuple(tokens[step.position - 1 + i] for i in range(3)))
        for step in request.steps[:-3]
        if step.position is not None
    )
    signature = draft_signature([msgspec.structs.replace(request, steps=late)])
    assert signature.agreement_one_early == 1.0
    assert signature.agreement is not None
    assert signature.agreement < 0.2


def test_draft_signature_when_drafts_are_degenerate_then_shares_are_one() -> None:
    request = make_request(accepted=(0, 0))
    assert request.steps is not None
    lowest = tuple(msgspec.structs.replace(step, draft_ids=tuple(range(7))) for step in request.steps)
    constant = tuple(msgspec.structs.replace(step, draft_ids=(9,) * 7) for step in request.steps)
    assert draft_signature([msgspec.structs.replace(request, steps=lowest)]).lowest_ids_share == 1.0
    signature = draft_signature([msgspec.structs.replace(request, steps=constant)])
    assert (signature.constant_draft_share, signature.repeated_token_share) == (1.0, 1.0)
    nothing = draft_signature([make_request(with_ids=False)])
    assert (nothing.num_drafts, nothing.agreement) == (0, None)
