"""The reader says what an id stands for, as transformers would, and survives every file."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_folders import SPECIAL, added, byte_level_bpe, changed, write

from dflash_doctor.checkpoints import tokenizer_file
from dflash_doctor.checkpoints.tokenizer_file import describe_token, read_tokenizer
from dflash_doctor.checkpoints.tokenizer_json import ParsedTokenizer, parse_tokenizer
from dflash_doctor.contract.tokenizers import TokenFact

DOCUMENT = byte_level_bpe()
VALID = json.dumps(DOCUMENT).encode()


def folder_with(tmp_path: Path, data: bytes) -> Path:
    (tmp_path / "tokenizer.json").write_bytes(data)
    return tmp_path


def test_read_when_the_file_is_right_then_tells_its_numbers(tmp_path: Path) -> None:
    roles = {"eos_token": "<|end|>", "pad_token": {"content": "<|end|>"}, "bos_token": None}
    found = read_tokenizer(write(tmp_path, DOCUMENT, tokenizer_config=roles, config={"vocab_size": 512}))
    assert found.facts is not None
    assert found.facts.problem is None
    assert (found.facts.kind, found.facts.num_ids, found.facts.last_id) == ("BPE", 351, 350)
    assert (found.facts.num_special, found.facts.num_added, found.facts.num_rows) == (3, 0, 512)
    assert [(item.role, item.id) for item in found.facts.special_tokens] == [("eos", 0), ("pad", 0)]


def test_describe_when_asked_for_an_id_then_tells_text_kind_and_roles(tmp_path: Path) -> None:
    document = changed(DOCUMENT, added_tokens=[*DOCUMENT["added_tokens"], added(351, "<think>")])
    folder = write(tmp_path, document, tokenizer_config={"mask_token": "<|mask|>"})
    vocab = DOCUMENT["model"]["vocab"]
    assert describe_token(folder, 2) == TokenFact(id=2, text="<|mask|>", kind="special", roles=("mask",))
    assert describe_token(folder, 351) == TokenFact(id=351, text="<think>", kind="added")
    space_the = vocab["\u0120the"]
    assert describe_token(folder, space_the) == TokenFact(id=space_the, text=" the", kind="ordinary")
    half = vocab["\u00e4"]  # the first byte of a Chinese character
    assert describe_token(folder, half) == TokenFact(id=half, text="\\xe4", kind="ordinary")
    assert describe_token(folder, 99999) == TokenFact(id=99999, text=None, kind="absent")
    assert describe_token(folder, -1) == TokenFact(id=-1, text=None, kind="absent")


def test_describe_when_no_tokenizer_can_be_read_then_knows_nothing(tmp_path: Path) -> None:
    assert describe_token(tmp_path, 0) is None
    assert describe_token(tmp_path / "none", 0) is None
    assert describe_token(folder_with(tmp_path, b"{"), 0) is None


@pytest.mark.parametrize(
    "config",
    [
        {"mask_token": "<new mask>", "pad_token": "<|end|>"},
        {"extra_special_tokens": ["<x>", "<y>"]},
        {"added_tokens_decoder": {"351": {"content": "<z>", "special": True, "normalized": False}}},
        {"added_tokens_decoder": {"900": {"content": "<z>", "special": False, "lstrip": True}}},
        {"added_tokens_decoder": {"0": {"content": "<|end|>", "special": False, "rstrip": True}}},
        {"added_tokens_decoder": {"40": {"content": "the", "special": False}}, "unk_token": "<u>"},
    ],
)
def test_read_when_other_files_add_tokens_then_ids_are_those_of_transformers(
    config: dict[str, Any], tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    class_ = {"tokenizer_class": "PreTrainedTokenizerFast"}
    folder = write(tmp_path, DOCUMENT, tokenizer_config=config | class_)
    theirs = AutoTokenizer.from_pretrained(folder)
    ours = read_tokenizer(folder)
    assert {text: number for number, text in ours.tokens.items()} == theirs.get_vocab()
    expected = {
        number: (str(token), token.special, token.lstrip, token.rstrip)
        for number, token in theirs.added_tokens_decoder.items()
    }
    seen = {
        number: (entry.content, entry.special, entry.lstrip, entry.rstrip)
        for number, entry in ours.added.items()
    }
    assert seen == expected


def test_read_when_a_declared_id_is_not_the_loaded_one_then_notes_it(tmp_path: Path) -> None:
    config = {"added_tokens_decoder": {"900": {"content": "<z>"}}}
    facts = read_tokenizer(write(tmp_path, DOCUMENT, tokenizer_config=config)).facts
    assert facts is not None
    assert facts.notes == ("'<z>' is declared as id 900 and loaded as 351",)


def test_read_when_the_older_files_name_roles_and_tokens_then_uses_them(tmp_path: Path) -> None:
    folder = write(
        tmp_path, DOCUMENT, special_tokens_map={"eos_token": "<|end|>"}, added_tokens={"<a>": 351, "<b>": "x"}
    )
    found = read_tokenizer(folder)
    assert found.facts is not None
    assert [item.role for item in found.facts.special_tokens] == ["eos"]
    assert found.tokens[351] == "<a>"


MODEL = b'{"model":{"type":"BPE","merges":[],"vocab":'


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"  \n ", "empty"),
        (VALID[: len(VALID) // 2], "no valid JSON"),
        (b'{"model":{"vocab":{"\xff":1}}}', "no valid JSON"),
        (b"\xff\xfe{}", "no JSON"),
        (b'{"model":{"vocab":{},"x":' + b"[" * 10**6, "nested too deeply"),
        (b'{"x":' * 10**5, "nested too deeply"),
        (b"{}", "missing required field `model`"),
        (b'{"model":{}}', "missing required field `vocab`"),
        (b"[]", "no tokenizer.json"),
        (MODEL + b"{}}}", "holds no token"),
        (MODEL + b'{"a":1,"b":1}}}', "id 1 is given twice: 'a' and 'b'"),
        (MODEL + b'{"a":-1}}}', "token id -1 is outside"),
        (MODEL + b'{"a":1000000000000}}}', "token id 1000000000000 is outside"),
        (MODEL + b'{"a":' + b"9" * 6000 + b"}}}", "out of range"),
        (MODEL + b'{"a":1.5}}}', "got `float`"),
        (MODEL + b'{"\\ud800":1}}}', "no valid JSON"),
        (b"GGUF\x03\x00\x00\x00", "a GGUF file"),
        (b"\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02", "a SentencePiece model"),
        (b"IQ== 0\nIg== 1\nIw== 2\n", "a tiktoken file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer"),
        (b"\xef\xbb\xbf" + VALID, "byte order mark"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value[:25],
)
def test_read_when_the_file_is_wrong_then_says_how(data: bytes, said: str, tmp_path: Path) -> None:
    facts = read_tokenizer(folder_with(tmp_path, data)).facts
    assert facts is not None
    assert said in (facts.problem or "")
    assert len(facts.problem or "") < 300


def test_parse_when_an_added_token_stands_on_another_then_says_so() -> None:
    twice = changed(DOCUMENT, added_tokens=[added(0, "<a>"), added(0, "<b>")])
    assert parse_tokenizer(json.dumps(twice).encode()) == "id 0 is given twice: '<a>' and '<b>'"
    over = parse_tokenizer(json.dumps(changed(DOCUMENT, added_tokens=[added(9, "<a>")])).encode())
    assert isinstance(over, ParsedTokenizer)
    assert "added token 9 is written over a vocabulary entry" in over.notes[0]


def test_read_when_the_file_is_over_the_limit_then_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "tokenizer.json").open("wb") as stream:
        stream.truncate(tokenizer_file.MAX_TOKENIZER_BYTES + 1)  # sparse
    facts = read_tokenizer(tmp_path).facts
    assert facts is not None
    assert facts.problem == "it has 268,435,457 bytes; at most 268,435,456 are read"


def test_parse_when_there_are_absurdly_many_entries_then_refuses_before_decoding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dflash_doctor.checkpoints.tokenizer_json._MAX_ENTRIES", 100)
    assert parse_tokenizer(VALID) == "more than 100 entries"


def test_read_when_the_name_is_a_pipe_or_a_folder_then_says_so_and_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tokenizer.json")
    facts = read_tokenizer(tmp_path).facts
    assert facts is not None
    assert "not a regular file" in (facts.problem or "")
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer.json").mkdir()
    facts = read_tokenizer(tmp_path).facts
    assert facts is not None
    assert facts.problem == "it is not a regular file"


def test_read_when_a_link_leaves_the_folder_then_is_not_followed(tmp_path: Path) -> None:
    elsewhere = write(tmp_path / "elsewhere", DOCUMENT)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "tokenizer.json").symlink_to(elsewhere / "tokenizer.json")
    facts = read_tokenizer(folder).facts
    assert facts is not None
    assert "a link out of the folder" in (facts.problem or "")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to("gone")
    facts = read_tokenizer(folder).facts
    assert facts is not None
    assert facts.problem == "it is a link that leads nowhere"
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to("tokenizer.json")
    facts = read_tokenizer(folder).facts
    assert facts is not None
    assert facts.problem


def test_read_when_a_link_is_one_of_the_hub_cache_then_is_followed(tmp_path: Path) -> None:
    cache = tmp_path / "models--org--name"
    (cache / "blobs").mkdir(parents=True)
    (cache / "blobs" / "0123").write_bytes(VALID)
    snapshot = cache / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "tokenizer.json").symlink_to("../../blobs/0123")
    assert read_tokenizer(snapshot).parsed is not None
    other = tmp_path / "models--org--other" / "blobs"
    other.mkdir(parents=True)
    (other / "0123").write_bytes(VALID)
    (snapshot / "tokenizer.json").unlink()
    (snapshot / "tokenizer.json").symlink_to(other / "0123")
    assert read_tokenizer(snapshot).parsed is None


@pytest.mark.parametrize("name", ["tokenizer.model", "tekken.json", "vocab.txt", "qwen.tiktoken", "m.gguf"])
def test_read_when_only_another_format_is_there_then_names_it(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"x")
    facts = read_tokenizer(tmp_path).facts
    assert facts is not None
    assert facts.file.endswith(name)
    assert "is not compared" in (facts.problem or "")


@pytest.mark.parametrize(
    "content", [b"", b"[" * 10**5, b'"x"', b"\xff", b'{"added_tokens_decoder":{"' + b"9" * 9999 + b'":"x"}}']
)
def test_read_when_a_small_file_is_wrong_then_the_tokenizer_is_still_read(
    content: bytes, tmp_path: Path
) -> None:
    folder = folder_with(tmp_path, VALID)
    for name in ("tokenizer_config", "special_tokens_map", "added_tokens", "config"):
        (folder / f"{name}.json").write_bytes(content)
    assert read_tokenizer(folder).parsed is not None


def test_describe_when_the_models_files_name_an_id_then_it_has_that_role(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, VALID)
    (folder / "config.json").write_text('{"eos_token_id": 7, "bos_token_id": true}')
    (folder / "generation_config.json").write_text('{"eos_token_id": [7, 8, "x"], "pad_token_id": 9}')
    found = read_tokenizer(folder)
    roles = {number: fact.roles for number in (7, 8, 9, 1) if (fact := found.describe(number)) is not None}
    assert (roles[7], roles[8], roles[9]) == (("eos",), ("eos",), ("pad",))
    assert "bos" not in roles[1]


def test_read_when_a_name_is_no_text_then_it_can_still_be_stored(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    (folder / "tokenizer.model").write_bytes(b"x")
    facts = read_tokenizer(folder).facts
    assert facts is not None
    assert msgspec.json.encode(facts)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(["model", "added_tokens", "normalizer", "pre_tokenizer", "decoder", "post_processor"])
MODEL_KEYS = st.sampled_from(["vocab", "type", "merges", "unk_id", "dropout", "fuse_unk"])


def read_bytes(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
        found = read_tokenizer(Path(folder))
        assert found.facts is not None
        assert (found.facts.problem is None) == (found.parsed is not None)
        for number in (0, 1, 10**12, *list(found.tokens)[:3]):
            assert (found.describe(number) is None) == (found.parsed is None)


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=300))
def test_read_when_given_arbitrary_bytes_then_returns(data: bytes) -> None:
    read_bytes({"tokenizer.json": data})


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(KEYS, JSON | st.dictionaries(MODEL_KEYS, JSON, max_size=5), max_size=6), JSON)
def test_read_when_given_arbitrary_json_then_returns(document: Any, config: Any) -> None:
    texts = [json.dumps(item).encode() for item in (document, config)]
    read_bytes({"tokenizer.json": texts[0], "tokenizer_config.json": texts[1], "config.json": texts[1]})


@settings(deadline=None, max_examples=150)
@given(st.integers(0, len(VALID) - 1), st.integers(0, 40), st.binary(max_size=40))
def test_read_when_given_a_mutated_file_then_returns(start: int, length: int, put: bytes) -> None:
    read_bytes({"tokenizer.json": VALID[:start] + put + VALID[start + length :]})


@settings(deadline=None, max_examples=100)
@given(KEYS, JSON, MODEL_KEYS, JSON)
def test_read_when_sections_are_replaced_then_returns(key: str, value: Any, inner: str, other: Any) -> None:
    document = changed(DOCUMENT, model=DOCUMENT["model"] | {inner: other}) | {key: value}
    read_bytes({"tokenizer.json": json.dumps(document).encode()})


def test_special_tokens_when_trained_then_have_the_lowest_ids() -> None:
    assert [DOCUMENT["model"]["vocab"][text] for text in SPECIAL] == [0, 1, 2]
