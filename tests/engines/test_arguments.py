"""Engine arguments are JSON where they can be, text otherwise."""

from __future__ import annotations

import pytest

from dflash_doctor.engines.arguments import parse_engine_args
from dflash_doctor.errors import UsageError


def test_parse_engine_args_when_values_are_json_then_gives_their_types() -> None:
    parsed = parse_engine_args(
        (
            "max_model_len=1024",
            "--enforce-eager=True",
            "dtype=float32",
            'x={"a": [1]}',
            "speculative_config.k=2",
        )
    )
    assert parsed == {
        "max_model_len": 1024,
        "enforce_eager": True,
        "dtype": "float32",
        "x": {"a": [1]},
        "speculative_config.k": 2,
    }


def test_parse_engine_args_when_the_nested_config_is_one_object_then_its_entries_count() -> None:
    parsed = parse_engine_args(
        (
            'speculative_config={"method": "dflash", "quantization": "fp8"}',
            "speculative_config.quantization=awq",
        )
    )
    assert parsed == {"speculative_config.method": "dflash", "speculative_config.quantization": "awq"}


@pytest.mark.parametrize("value", ["{bad", "3", "[1]", "null"])
def test_parse_engine_args_when_the_nested_config_is_none_then_is_a_usage_error(value: str) -> None:
    with pytest.raises(UsageError, match="no JSON object"):
        parse_engine_args((f"speculative_config={value}",))


@pytest.mark.parametrize("item", ["novalue", "=1", "  =x"])
def test_parse_engine_args_when_an_item_has_no_key_then_is_a_usage_error(item: str) -> None:
    with pytest.raises(UsageError, match="not KEY=VALUE"):
        parse_engine_args((item,))
