"""Acceptance counts what the steps say, in every slice, and never invents a number."""

from __future__ import annotations

import msgspec
import pytest
from evidence_factory import make_evidence, make_generation, make_request
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.evidence import EngineCounters, ThinkingTokens
from dflash_doctor.metrics.acceptance import acceptance_of_counters, acceptance_of_steps, position_metrics
from dflash_doctor.metrics.compute import compute_metrics
from dflash_doctor.metrics.slices import acceptance_by_context, acceptance_by_segment, acceptance_of_requests
from dflash_doctor.metrics.steps import step_table

WALKS = st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=12), min_size=1, max_size=8)


def requests_of(walks: list[list[int]]) -> list:
    return [
        make_request(f"p{index}", "abc"[index % 3], accepted=walk, prompt_len=20 + 40 * index)
        for index, walk in enumerate(walks)
    ]


@given(WALKS)
def test_acceptance_when_counted_from_steps_then_every_identity_holds(walks: list[list[int]]) -> None:
    requests = requests_of(walks)
    table = step_table(requests)
    overall = acceptance_of_requests(requests, label="overall")
    positions = position_metrics(table)
    flat = [count for walk in walks for count in walk]
    assert overall.num_drafts == len(flat)
    assert overall.num_accepted_draft_tokens == sum(flat)
    assert overall.mean_acceptance_length.value == pytest.approx(1 + sum(flat) / len(flat))
    assert overall.acceptance_histogram is not None
    assert sum(overall.acceptance_histogram) == len(flat)
    assert sum(j * count for j, count in enumerate(overall.acceptance_histogram)) == sum(flat)
    assert 1 + sum(item.acceptance_rate.value or 0 for item in positions) == pytest.approx(
        overall.mean_acceptance_length.value
    )
    rates = [item.acceptance_rate.value or 0 for item in positions]
    assert rates == sorted(rates, reverse=True)
    assert overall.num_overshoot_tokens == 0
    assert overall.mean_tokens_per_step.value == pytest.approx(overall.mean_acceptance_length.value)


@given(WALKS)
def test_acceptance_when_sliced_then_the_slices_add_up(walks: list[list[int]]) -> None:
    requests = requests_of(walks)
    table = step_table(requests)
    overall = acceptance_of_requests(requests, label="overall")
    for slices in (
        [acceptance_of_requests([r for r in requests if r.category == c], label=c) for c in "abc"],
        list(acceptance_by_context(table)),
        list(acceptance_by_segment(table).values()),
    ):
        for name in ("num_drafts", "num_draft_tokens", "num_accepted_draft_tokens"):
            assert sum(getattr(item, name) or 0 for item in slices) == getattr(overall, name)


def test_acceptance_when_the_engine_gives_totals_only_then_they_are_the_engines() -> None:
    request = make_request(accepted=(3, 0, 7), steps=None)
    metrics = acceptance_of_requests([request, request], label="x")
    assert metrics.num_drafts == 6
    assert metrics.mean_acceptance_length.value == pytest.approx(1 + 10 / 3)
    assert metrics.mean_acceptance_length.source == "engine"
    assert metrics.mean_tokens_per_step.value is None
    assert metrics.num_overshoot_tokens is None
    assert metrics.first_position_acceptance_rate.value == pytest.approx(2 / 3)


def test_acceptance_when_the_engine_gives_nothing_then_it_is_absent_and_not_zero() -> None:
    request = make_request(steps=None, counters=None)
    metrics = acceptance_of_requests([request], label="x")
    assert metrics.num_drafts is None
    assert metrics.mean_acceptance_length.value is None
    assert metrics.mean_acceptance_length.source == "absent"
    assert metrics.acceptance_histogram is None
    partial = make_request(steps=None, counters=EngineCounters(num_drafts=3))
    assert acceptance_of_counters([partial], label="x").num_drafts is None


def test_position_metrics_when_draft_widths_differ_then_denominators_do_too() -> None:
    narrow = make_request("a", accepted=(2, 1), k=2)
    wide = make_request("b", accepted=(4, 0), k=4)
    positions = position_metrics(step_table([narrow, wide]))
    third = positions[2]
    assert third.num_drafted == 2
    assert third.num_accepted == 1
    assert third.acceptance_rate.value == pytest.approx(1 / 4)
    # Of the steps that drafted position 2, one accepted position 1 as well.
    assert third.conditional_acceptance_rate.value == pytest.approx(1.0)


def test_step_table_when_the_last_step_overshoots_then_the_surplus_is_not_kept() -> None:
    whole = make_request(accepted=(3, 7))
    cut = msgspec.structs.replace(whole, output_ids=whole.output_ids[:-5])
    metrics = acceptance_of_requests([cut], label="x")
    assert metrics.num_overshoot_tokens == 5
    assert metrics.mean_acceptance_length.value == pytest.approx(1 + 10 / 2)
    assert metrics.mean_tokens_per_step.value == pytest.approx((4 + 8 - 5) / 2)


@given(WALKS)
def test_step_table_when_positions_are_not_given_then_follow_from_the_counts(walks: list) -> None:
    requests = requests_of(walks)
    blind = [
        msgspec.structs.replace(
            request,
            steps=tuple(msgspec.structs.replace(step, position=None) for step in request.steps),
        )
        for request in requests
    ]
    assert step_table(blind).position.tolist() == step_table(requests).position.tolist()


def test_acceptance_by_context_when_positions_spread_then_buckets_double() -> None:
    requests = [
        make_request(str(length), accepted=(1,), prompt_len=length) for length in (5, 126, 127, 300, 3000)
    ]
    labels = {item.label: item.num_drafts for item in acceptance_by_context(step_table(requests))}
    # The step's first token comes after the prompt and the prefill token.
    assert labels == {"0-127": 2, "128-255": 1, "256-511": 1, "2048-4095": 1}


@pytest.mark.parametrize(
    ("tail", "output", "expected"),
    [
        pytest.param([4, 5], [10, 11, 12, 13], [False, False], id="empty-block-in-the-prompt"),
        pytest.param([4], [10, 11, 12, 13], [True, True], id="prompt-opens-the-block"),
        pytest.param([], [4, 11, 5, 13, 14], [True, False], id="opens-and-closes"),
        pytest.param([], [10, 11, 12, 13], [False, False], id="no-markers"),
    ],
)
def test_step_table_when_there_are_thinking_markers_then_knows_what_is_inside(
    tail: list[int], output: list[int], expected: list[bool]
) -> None:
    request = make_request(accepted=(1, 0), prompt_len=6)
    prompt = (*request.prompt_ids[: 6 - len(tail)], *tail)
    request = msgspec.structs.replace(request, prompt_ids=prompt, output_ids=tuple(output))
    table = step_table([request], thinking=ThinkingTokens(start_id=4, end_id=5))
    assert table.thinking.tolist() == expected


def test_compute_metrics_when_the_run_is_healthy_then_everything_is_there() -> None:
    metrics = compute_metrics(make_evidence())
    assert metrics.overall is not None
    assert set(metrics.by_category) == {"math", "code"}
    assert len(metrics.by_position) == 7
    assert metrics.rejections is not None
    assert metrics.lossless is not None
    assert metrics.lossless.num_identical == 8
    assert metrics.timing is not None
    assert metrics.timing.speculative_output_tokens_per_s == pytest.approx(
        2 * (metrics.timing.target_only_output_tokens_per_s or 0)
    )


def test_compute_metrics_when_there_is_nothing_then_nothing_is_counted() -> None:
    metrics = compute_metrics(make_evidence(speculative=None, target_only=None, speculative_timing=None))
    assert metrics.overall is None
    assert metrics.by_position == ()
    assert metrics.timing is None


def test_compute_metrics_when_the_only_pass_was_captured_then_it_gives_no_speed() -> None:
    evidence = make_evidence(speculative_timing=None)
    timing = compute_metrics(evidence).timing
    assert timing is not None
    assert timing.speculative_output_tokens_per_s is None


def test_acceptance_of_steps_when_a_slice_is_empty_then_rates_are_absent() -> None:
    table = step_table(make_generation([make_request()]).requests)
    empty = acceptance_of_steps(table, label="none", where=table.position < 0)
    assert empty.num_drafts == 0
    assert empty.mean_acceptance_length.value is None
