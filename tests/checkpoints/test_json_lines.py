"""Every key of a config is found on its line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.checkpoints.json_lines import key_lines

KEYS = st.text(max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


def lines_by_writing(value: Any) -> dict[str, int]:
    """The same by writing the value out, a line for each key and each entry."""
    found: dict[str, int] = {}
    line = 1

    def walk(item: Any, path: list[str]) -> None:
        nonlocal line
        if not isinstance(item, dict | list) or not item:
            return
        for entry in item.items() if isinstance(item, dict) else enumerate(item):
            line += 1
            inner = [*path, entry[0]] if isinstance(item, dict) else path
            if isinstance(item, dict):
                found[".".join(inner)] = line
            walk(entry[1], inner)
        line += 1

    walk(value, [])
    return found


@given(st.dictionaries(KEYS, JSON, max_size=5), st.booleans())
def test_key_lines_when_json_is_indented_then_finds_every_key(
    value: dict[str, Any], ascii_only: bool
) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=ascii_only)
    assert key_lines(text) == lines_by_writing(value)


@given(st.dictionaries(KEYS, JSON, max_size=5))
def test_key_lines_when_json_is_on_one_line_then_every_key_is_on_line_one(value: dict[str, Any]) -> None:
    found = key_lines(json.dumps(value))
    assert set(found) == set(lines_by_writing(value))
    assert set(found.values()) <= {1}


@given(st.text())
def test_key_lines_when_text_is_no_json_then_answers_something(text: str) -> None:
    assert all(line >= 1 for line in key_lines(text).values())


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('{"a": {"b": 1},\n"c": [{"d": 2},\n{"d": 3}]}', {"a": 1, "a.b": 1, "c": 2, "c.d": 3}),
        ('{"a": "x: {",\n "b": "\\"",\n "c": 1}', {"a": 1, "b": 2, "c": 3}),
        ('{"a": 1,\n"a": 2}', {"a": 2}),
        ('{"a": 1,\n"": {"a": 2}}', {"a": 1, "": 2, ".a": 2}),
        ("[]", {}),
        ("", {}),
    ],
)
def test_key_lines_when_text_is_given_then_answers_by_path(text: str, lines: dict[str, int]) -> None:
    assert key_lines(text) == lines


def test_key_lines_when_there_are_very_many_keys_then_keeps_the_first() -> None:
    found = key_lines(json.dumps({f"k{index}": index for index in range(30_000)}))
    assert len(found) == 20_000
    assert "k19999" in found


def test_key_lines_when_outer_key_is_long_then_paths_do_not_multiply_it() -> None:
    text = json.dumps({"x" * 1_000_000: {f"k{index}": 1 for index in range(20_000)}, "after": 1}, indent=0)
    assert key_lines(text) == {"after": 20_004}
