"""JSON files are read with their lines, and whatever is wrong with them is said."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.checkpoints.json_file import JsonFile, read_json_object


def read(tmp_path: Path, content: bytes | str) -> JsonFile:
    path = tmp_path / "config.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_json_object(path)


def test_read_when_file_is_sound_then_gives_value_lines_and_no_problem(tmp_path: Path) -> None:
    file = read(tmp_path, '{\n "a": {\n  "b": 2\n }\n}')
    assert file.value == {"a": {"b": 2}}
    assert file.lines == {"a": 2, "a.b": 3}
    assert file.problems == ()


@pytest.mark.parametrize(
    ("content", "seen", "line"),
    [
        (b"", "Expecting value at line 1", 1),
        (b'{"a": 1', "Expecting ',' delimiter at line 1", 1),
        (b'{\n"a": 1,\n}', "at line", 2),
        (b'{"a": \xff}', "it is not UTF-8 (byte 6)", None),
        (b"[1]", "it holds a JSON list, not an object", None),
        (b"3", "it holds a JSON int, not an object", None),
        (b"[" * 100_000, "it is nested too deeply", None),
        (b'{"a":' * 100_000, "it is nested too deeply", None),
        (b'{"a": ' + b"1" * 5000 + b"}", "4300 digits", None),
        (b"\0\0\0\0", "Expecting value", 1),
    ],
)
def test_read_when_file_is_unfit_then_gives_a_problem_and_no_value(
    tmp_path: Path, content: bytes, seen: str, line: int | None
) -> None:
    file = read(tmp_path, content)
    assert file.value is None
    (problem,) = file.problems
    assert problem.severity == "error"
    assert problem.what == "config.json cannot be read"
    assert seen in problem.seen
    if line is not None:
        assert problem.line is not None
        assert problem.line >= line


def test_read_when_file_is_a_gigabyte_then_says_so_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.touch()
    os.truncate(path, 1 << 30)
    (problem,) = read_json_object(path).problems
    assert problem.seen == "it has 1,073,741,824 bytes; at most 16,777,216 are read"


def test_read_when_file_is_missing_then_is_a_problem_only_where_required(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    assert read_json_object(path, required=False).problems == ()
    assert read_json_object(path).problems[0].seen == "No such file or directory"


def test_read_when_link_dangles_then_is_a_problem_even_where_not_required(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.symlink_to("b.json")
    assert read_json_object(path, required=False).problems[0].seen == "it is a link that leads nowhere"


def test_read_when_a_key_is_written_twice_then_warns_with_its_last_line(tmp_path: Path) -> None:
    file = read(tmp_path, '{"block_size": 16,\n"x": {"y": 1, "y": 2},\n"block_size": 8}')
    assert file.value == {"block_size": 8, "x": {"y": 2}}
    assert [(item.severity, item.field) for item in file.problems] == [
        ("warning", "y"),
        ("warning", "block_size"),
    ]
    assert file.problems[1].line == 3


def test_read_when_very_many_keys_are_written_twice_then_names_the_first(tmp_path: Path) -> None:
    body = ",".join(f'"k{index}":0,"k{index}":1' for index in range(200_000))
    file = read(tmp_path, "{" + body + "}")
    assert [item.field for item in file.problems] == [f"k{index}" for index in range(20)]


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_read_when_a_number_is_none_of_json_then_keeps_it_and_tells(tmp_path: Path, name: str) -> None:
    file = read(tmp_path, f'{{"a": 1, "limit": [0, {name}]}}')
    assert file.value is not None
    assert file.value["a"] == 1
    (problem,) = file.problems
    assert (problem.severity, problem.what) == ("info", f"{name} is not JSON")


def test_read_when_texts_hold_half_characters_then_value_can_be_stored(tmp_path: Path) -> None:
    file = read(tmp_path, r'{"\ud800": ["\udfff", {"a": "\ud83d\ude00"}]}')
    assert file.value == {"?": ["?", {"a": "\U0001f600"}]}
    assert json.loads(msgspec.json.encode(file.value)) == file.value
    assert file.lines == {"?": 1, "?.a": 1}


@given(content=st.binary(max_size=200))
def test_read_when_bytes_are_arbitrary_then_never_raises(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = read(tmp_path_factory.mktemp("j"), content)
    assert (file.value is None) == any(item.severity == "error" for item in file.problems)


@given(
    value=st.dictionaries(st.text(max_size=5), st.floats() | st.text(max_size=5) | st.lists(st.integers()))
)
def test_read_when_value_was_written_by_python_then_gives_it_back(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, object]
) -> None:
    text = json.dumps(value)
    file = read(tmp_path_factory.mktemp("j"), text)
    assert repr(file.value) == repr(json.loads(text))
