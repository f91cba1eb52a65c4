"""The template of a folder is found as an engine finds it, and nothing in the folder can do harm."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.checkpoints.template_file import read_template


def write_json(folder: Path, name: str, value: Any) -> None:
    (folder / name).write_text(json.dumps(value), encoding="utf-8")


def test_read_when_all_three_files_have_one_then_the_order_is_that_of_transformers(tmp_path: Path) -> None:
    write_json(tmp_path, "tokenizer_config.json", {"chat_template": "config"})
    source = read_template(tmp_path)
    assert (source.file, source.field, source.texts) == (
        "tokenizer_config.json",
        "chat_template",
        {"default": "config"},
    )
    write_json(tmp_path, "chat_template.json", {"chat_template": "json"})
    assert read_template(tmp_path).texts == {"default": "json"}
    (tmp_path / "chat_template.jinja").write_text("jinja")
    source = read_template(tmp_path)
    assert (source.file, source.field, source.texts) == ("chat_template.jinja", None, {"default": "jinja"})


def test_read_when_there_are_named_templates_then_all_are_there(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    write_json(tmp_path, "tokenizer_config.json", {"chat_template": named})
    assert read_template(tmp_path).texts == {"default": "a", "tool_use": "b"}
    (tmp_path / "chat_template.jinja").write_text("c")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("d")
    assert read_template(tmp_path).texts == {"default": "c", "tool_use": "d"}


def test_read_when_transformers_reads_the_same_folder_then_finds_the_same(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="what is agreed with")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((bundled_fixtures() / "tiny_pair" / "target" / name).read_bytes())
    (tmp_path / "chat_template.jinja").write_bytes(b"one\r\ntwo\rthree\n")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    source = read_template(tmp_path)
    assert source.texts == {"default": tokenizer.chat_template}
    assert source.special_tokens == tokenizer.special_tokens_map


def test_read_when_special_tokens_are_written_in_any_form_then_they_are_text(tmp_path: Path) -> None:
    tokens = {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}, "pad_token": None}
    write_json(tmp_path, "tokenizer_config.json", {**tokens, "cls_token": 3, "model_max_length": 10**30})
    write_json(tmp_path, "special_tokens_map.json", {"bos_token": "other", "unk_token": "<unk>"})
    assert read_template(tmp_path).special_tokens == {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }


def test_read_when_there_is_none_then_it_is_missing_and_not_broken(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere", Path("some-owner/some-model")):
        source = read_template(folder)
        assert (source.file, source.texts, source.sha256) == (None, {}, None)
        assert source.problem == "the folder has no chat template"
    write_json(tmp_path, "tokenizer_config.json", {"chat_template": None})
    assert read_template(tmp_path).file is None


def test_hash_when_a_name_or_a_text_changes_then_changes(tmp_path: Path) -> None:
    seen = set()
    for value in ("a", "b", [{"name": "x", "template": "a"}], {"default": "a", "tool_use": "b"}):
        write_json(tmp_path, "tokenizer_config.json", {"chat_template": value})
        seen.add(read_template(tmp_path).sha256)
    assert len(seen) == 4


@pytest.mark.parametrize("value", [5, True, [1], [{"name": "x"}], {"default": 1}, [["a", "b"]]])
def test_read_when_the_template_is_of_another_kind_then_says_so(tmp_path: Path, value: Any) -> None:
    write_json(tmp_path, "tokenizer_config.json", {"chat_template": value})
    source = read_template(tmp_path)
    assert source.texts == {}
    assert source.file == "tokenizer_config.json"
    assert "neither text nor a list of named templates" in str(source.problem)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not the JSON object"),
        (b'{"chat_template": "abc', "not the JSON object"),
        (b"[1, 2]", "not the JSON object"),
        (b'{"x": ' + b"[" * 100_000, "not the JSON object"),
        (b'{"chat_template": "\xff"}', "neither text"),
        (b'{"chat_template": "' + b"x" * 2_000_000 + b'"}', "more than"),
        (json.dumps({"chat_template": {str(number): "" for number in range(99)}}).encode(), "99 named"),
    ],
    ids=["empty", "cut", "list", "deep", "not-utf-8", "long", "many"],
)
def test_read_when_the_json_is_hostile_then_says_what_is_wrong(
    tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / "tokenizer_config.json").write_bytes(content)
    source = read_template(tmp_path)
    assert source.texts == {}
    assert words in str(source.problem)


def test_read_when_the_file_is_not_utf_8_then_says_where(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"abc\xff")
    assert read_template(tmp_path).problem == "chat_template.jinja: it is not UTF-8 (byte 3)"


@pytest.mark.parametrize("name", ["chat_template.jinja", "chat_template.json", "tokenizer_config.json"])
def test_read_when_the_file_is_huge_then_it_is_not_read(tmp_path: Path, name: str) -> None:
    with (tmp_path / name).open("wb") as stream:
        stream.truncate(100 * 1024 * 1024)
    assert f"{name}: it has 104,857,600 bytes; at most" in str(read_template(tmp_path).problem)


@pytest.mark.parametrize("name", ["chat_template.jinja", "chat_template.json", "tokenizer_config.json"])
def test_read_when_the_file_is_no_plain_file_then_it_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    assert read_template(tmp_path).problem == f"{name}: it is not a regular file"
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    assert "not a regular file" in str(read_template(tmp_path).problem)


def test_read_when_a_link_leads_out_then_it_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    link = folder / "chat_template.jinja"
    for aim in (tmp_path / "secret", Path("../secret")):
        link.symlink_to(aim)
        source = read_template(folder)
        assert source.texts == {}
        assert str(source.problem).startswith("chat_template.jinja: it is a link out of the folder, to ")
        link.unlink()
    link.symlink_to("nowhere")
    assert "chat_template.jinja: " in str(read_template(folder).problem)
    link.unlink()
    link.symlink_to(link)
    assert "chat_template.jinja: " in str(read_template(folder).problem)


def test_read_when_a_link_stays_in_the_folder_or_in_the_hub_cache_then_it_is_followed(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "1234").write_text("from the cache")
    (snapshot / "chat_template.jinja").symlink_to("../../blobs/1234")
    assert read_template(snapshot).texts == {"default": "from the cache"}
    (snapshot / "chat_template.jinja").unlink()
    (snapshot / "own.jinja").write_text("own")
    (snapshot / "chat_template.jinja").symlink_to("own.jinja")
    assert read_template(snapshot).texts == {"default": "own"}


def test_read_when_named_templates_lie_elsewhere_then_only_the_hub_cache_is_followed(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    named = snapshot / "additional_chat_templates"
    blobs.mkdir()
    named.mkdir(parents=True)
    (blobs / "1234").write_text("from the cache")
    (named / "tools.jinja").symlink_to("../../../blobs/1234")
    assert read_template(snapshot).texts == {"tools": "from the cache"}
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "tools.jinja").write_text("secret")
    (named / "tools.jinja").unlink()
    (named / "tools.jinja").symlink_to(tmp_path / "elsewhere" / "tools.jinja")
    assert "link out of the folder" in str(read_template(snapshot).problem)
    (named / "tools.jinja").unlink()
    named.rmdir()
    named.symlink_to(tmp_path / "elsewhere")
    assert read_template(snapshot).texts == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "template", "default", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
CONFIG = st.dictionaries(st.sampled_from(["chat_template", "bos_token", "eos_token", "x"]), JSON).map(
    lambda value: json.dumps(value).encode()
)


@given(st.binary(max_size=60) | CONFIG, st.sampled_from([None, b"text"]) | st.binary(max_size=20))
def test_read_when_files_are_random_then_gives_texts_or_a_problem(config: bytes, jinja: bytes | None) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tokenizer_config.json").write_bytes(config)
        if jinja is not None:
            (folder / "chat_template.jinja").write_bytes(jinja)
        source = read_template(folder)
    assert bool(source.texts) != bool(source.problem)
    assert (source.sha256 is None) == (not source.texts)
    assert all(isinstance(token, str) for token in source.special_tokens.values())
