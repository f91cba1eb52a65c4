"""The tie margin is what this machine's own target-only passes show."""

from __future__ import annotations

import pytest
from evidence_factory import make_generation, make_request
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.evidence import RequestTrace
from dflash_doctor.probes.noise import measure_noise, rounding_step


def trace(
    output: tuple[int, ...], chosen: list[float], other: list[float], prompt_id: str = "p"
) -> RequestTrace:
    return make_request(
        prompt_id,
        accepted=(),
        steps=None,
        counters=None,
        output_ids=output,
        output_logprobs=tuple(chosen),
        runner_up_logprobs=tuple(other),
    )


def measured(left: RequestTrace, *right: RequestTrace, dtype: str = "bfloat16") -> object:
    return measure_noise(
        make_generation([left], arm="target-only"),
        tuple(make_generation([item], arm="target-only") for item in right),
        dtype=dtype,
        max_logit=20.0,
        how="test",
    )


@pytest.mark.parametrize(
    ("dtype", "magnitude", "step"),
    [
        ("bfloat16", 20.0, 0.125),
        ("bfloat16", 1.0, 2**-7),
        ("float16", 20.0, 2**-6),
        ("float32", 20.0, 2**-19),
        ("int8", 20.0, None),
        (None, 20.0, None),
        ("bfloat16", None, None),
        ("bfloat16", 0.0, None),
    ],
)
def test_rounding_step_when_a_format_is_named_then_is_one_unit_in_the_last_place(
    dtype: str | None, magnitude: float | None, step: float | None
) -> None:
    assert rounding_step(dtype, magnitude) == step


@given(st.floats(1e-3, 1e4))
def test_rounding_step_when_compared_with_torch_then_is_the_distance_to_the_next_number(value: float) -> None:
    torch = pytest.importorskip("torch", reason="torch is the oracle")
    here = torch.tensor(value, dtype=torch.bfloat16)
    step = rounding_step("bfloat16", float(here))
    assert step is not None
    assert float(here) + step == float(
        torch.nextafter(here, torch.tensor(float("inf"), dtype=torch.bfloat16))
    )


def test_measure_noise_when_passes_are_equal_then_only_rounding_is_left() -> None:
    one = trace((1, 2, 3), [-0.1, -0.2, -0.3], [-2.0, -3.0, -1.0])
    noise = measured(one, one)
    assert noise.max_logprob_gap_change == 0.0  # type: ignore[attr-defined]
    assert noise.tie_margin == 0.125  # type: ignore[attr-defined]
    assert noise.num_positions == 3  # type: ignore[attr-defined]


def test_measure_noise_when_gaps_move_then_the_largest_move_counts() -> None:
    left = trace((1, 2), [-0.1, -0.2], [-2.0, -3.0])
    right = trace((1, 2), [-0.1, -0.5], [-2.0, -2.5])
    assert measured(left, right).max_logprob_gap_change == pytest.approx(0.8)  # type: ignore[attr-defined]


def test_measure_noise_when_texts_part_then_only_the_common_prefix_is_compared() -> None:
    left = trace((1, 2, 3), [-0.1, -0.2, -0.3], [-2.0, -3.0, -1.0])
    right = trace((1, 9, 3), [-0.1, -5.0, -5.0], [-2.0, -0.1, -0.1])
    noise = measured(left, right)
    assert noise.num_positions == 1  # type: ignore[attr-defined]
    assert noise.num_text_differences == 1  # type: ignore[attr-defined]
    assert noise.max_logprob_gap_change == 0.0  # type: ignore[attr-defined]


def test_measure_noise_when_one_pass_is_longer_then_that_alone_is_no_difference() -> None:
    left = trace((1, 2), [-0.1, -0.2], [-2.0, -3.0])
    longer = make_request("p", accepted=(), steps=None, counters=None, output_ids=(1, 2, 3, 4))
    noise = measured(left, longer)
    assert noise.num_text_differences == 0  # type: ignore[attr-defined]
    assert noise.num_positions == 0  # type: ignore[attr-defined]
