"""How a config says that its weights are stored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.checkpoints.quantization import read_quantization
from dflash_doctor.contract.pair import Quantization


def read(found: Any) -> Quantization | None:
    return read_quantization({"quantization_config": found}, ())


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, Quantization(method="fp8")),
        ({"quant_method": "awq", "bits": 4}, Quantization(method="awq", scheme="4")),
        (
            {"quant_method": "gptq", "bits": 4, "lm_head": True},
            Quantization(method="gptq", scheme="4", covers_head=True),
        ),
        (
            {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"]},
            Quantization(method="compressed-tensors", scheme="pack-quantized", ignored_modules=("lm_head",)),
        ),
        (
            {"config_groups": {"g": {"targets": ["Linear", "re:.*lm_head"]}}, "quant_method": "x"},
            Quantization(method="x", covers_head=True),
        ),
        (
            {"config_groups": {"g": {"targets": "lm_head"}}, "quant_method": "x"},
            Quantization(method="x", covers_head=True),
        ),
        (
            {
                "producer": {"name": "modelopt"},
                "quantization": {"quant_algo": "NVFP4", "exclude_modules": []},
            },
            Quantization(method="NVFP4", scheme="NVFP4"),
        ),
        (
            {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head", 3]},
            Quantization(method="mxfp4", ignored_modules=("lm_head",)),
        ),
        (
            {"quant_method": "quark", "rotation": {"kind": "hadamard"}},
            Quantization(method="quark", rotation="rotation={'kind': 'hadamard'}"),
        ),
        (
            {"quant_method": "a", "b": [{"name": "SpinQuant R1"}]},
            Quantization(method="a", rotation="SpinQuant R1"),
        ),
        ({"quant_method": "a", "use_hadamard": False, "rotate": None}, Quantization(method="a")),
        ({}, Quantization(method="unknown")),
    ],
)
def test_read_quantization_when_config_names_one_then_sums_it_up(
    found: dict[str, Any], expected: Quantization
) -> None:
    assert read(found) == expected


def test_read_quantization_when_it_stands_in_the_inner_config_then_says_where() -> None:
    inner = {"quantization_config": {"quant_method": "fp8"}}
    found = read_quantization({"text_config": inner}, ("text_config",))
    assert found == Quantization(method="fp8", field="text_config.quantization_config")


def test_read_quantization_when_both_places_name_one_then_takes_the_outer() -> None:
    raw = {
        "compression_config": {"quant_method": "outer"},
        "text_config": {"quantization_config": {"quant_method": "inner"}},
    }
    found = read_quantization(raw, ("", "text_config"))
    assert found == Quantization(method="outer", field="compression_config")


@pytest.mark.parametrize("found", [None, 3, "fp8", ["fp8"]])
def test_read_quantization_when_it_is_no_object_then_gives_none(found: Any) -> None:
    assert read(found) is None


def test_read_quantization_when_it_is_deeply_nested_then_gives_up_looking() -> None:
    value: Any = {"hadamard": True}
    for _ in range(400):
        value = {"x": [value]}
    assert read({"quant_method": "a", "b": value}) == Quantization(method="a")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["lm_head", "hadamard", ""]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            [
                "quant_method", "quantization", "quant_algo", "format", "bits", "ignore", "exclude_modules",
                "config_groups", "targets", "lm_head", "rotation",
            ]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip


@given(found=JSON)
def test_read_quantization_when_value_is_arbitrary_then_can_be_stored(found: Any) -> None:
    msgspec.json.encode(read(found))
