"""Tokenizers are compared by id and by what they do to text; hostile files end in a word about them."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doctor_process import PAIR
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.checkpoints.tokenizer_behaviour import FIXED, open_encoder
from dflash_doctor.checkpoints.tokenizer_child import TokenizerFailedError, encode
from dflash_doctor.checkpoints.tokenizer_file import read_tokenizer
from dflash_doctor.checkpoints.tokenizer_parity import compare_tokenizers

BUNDLED = json.loads((PAIR / "target" / "tokenizer.json").read_text())
Edit = Callable[[dict[str, Any]], None]


def write(folder: Path, *edits: Edit) -> Path:
    """The bundled tokenizer, changed, in a folder of its own."""
    document = copy.deepcopy(BUNDLED)
    for edit in edits:
        edit(document)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(document))
    return folder


def swap(first: int, second: int) -> Edit:
    def edit(document: dict[str, Any]) -> None:
        vocab = document["model"]["vocab"]
        names = {number: text for text, number in vocab.items()}
        vocab[names[first]], vocab[names[second]] = second, first

    return edit


def more_tokens(document: dict[str, Any]) -> None:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    document["added_tokens"].append({"id": 1024, "content": "<|extra|>", **flags})


def lower_case(document: dict[str, Any]) -> None:
    document["normalizer"] = {"type": "Lowercase"}


def whole_numbers(document: dict[str, Any]) -> None:
    """Digits together: the bundled tokenizer cuts them one by one."""
    document["pre_tokenizer"] = {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True,
    }  # fmt: skip
    vocab, merges = document["model"]["vocab"], document["model"]["merges"]
    last = max(vocab, key=vocab.get)
    number = vocab.pop(last)
    merges[:] = [pair for pair in merges if "".join(pair if isinstance(pair, list) else pair.split()) != last]
    vocab["12"] = number
    merges.append(["1", "2"] if isinstance(merges[0], list) else "1 2")


def test_compare_when_the_bundled_pair_is_given_then_is_identical_without_loading_anything() -> None:
    import subprocess
    import sys

    script = (
        "import sys; from pathlib import Path\n"
        "from dflash_doctor.checkpoints.tokenizer_parity import compare_tokenizers\n"
        f"found = compare_tokenizers(Path({str(PAIR / 'target')!r}), Path({str(PAIR / 'draft')!r}))\n"
        "print(found.classification, found.num_texts, {'tokenizers', 'hypothesis'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "identical None set()"


def test_compare_when_two_ids_are_swapped_then_shows_the_text_they_stand_for(tmp_path: Path) -> None:
    target, draft = write(tmp_path / "t"), write(tmp_path / "d", swap(300, 301))
    found = compare_tokenizers(target, draft)
    assert found.classification == "conflicting"
    assert found.num_conflicts == 2
    assert [item.id for item in found.conflicts] == [300, 301]
    tokenizer = open_encoder((target / "tokenizer.json").read_bytes())
    assert found.conflicts[0].target_text == tokenizer.decode([300])
    assert found.conflicts[0].draft_text == tokenizer.decode([301])


def test_compare_when_one_side_has_more_ids_then_it_is_a_suffix(tmp_path: Path) -> None:
    target, draft = write(tmp_path / "t"), write(tmp_path / "d", more_tokens)
    found = compare_tokenizers(target, draft)
    assert found.classification == "suffix-added"
    assert (found.num_only_in_target, found.num_only_in_draft) == (0, 1)
    assert found.difference is not None, "the text of the new token is cut in pieces by the other"
    assert found.difference.text == "<|extra|>"


def test_compare_when_only_the_tables_differ_then_it_is_padding(tmp_path: Path) -> None:
    found = compare_tokenizers(
        write(tmp_path / "t"), write(tmp_path / "d"), target_vocab_size=1024, draft_vocab_size=1088
    )
    assert found.classification == "padding-only"
    assert found.difference is None


def test_compare_when_a_normaliser_differs_then_shrinks_to_one_letter(tmp_path: Path) -> None:
    found = compare_tokenizers(write(tmp_path / "t"), write(tmp_path / "d", lower_case))
    assert found.classification == "identical"
    assert found.difference is not None
    assert len(found.difference.text) == 1
    assert found.difference.text.lower() != found.difference.text
    assert found.difference.target_ids != found.difference.draft_ids


def test_compare_when_numbers_are_cut_otherwise_then_shrinks_to_two_digits(tmp_path: Path) -> None:
    found = compare_tokenizers(write(tmp_path / "t"), write(tmp_path / "d", whole_numbers))
    assert found.difference is not None
    assert len(found.difference.text) <= 2


def test_compare_when_a_flag_differs_then_names_the_token(tmp_path: Path) -> None:
    def unspecial(document: dict[str, Any]) -> None:
        document["added_tokens"][0]["special"] = False

    found = compare_tokenizers(write(tmp_path / "t"), write(tmp_path / "d", unspecial))
    assert found.flag_differences == (f"{BUNDLED['added_tokens'][0]['content']} (0): special / plain",)


def test_compare_when_the_search_runs_then_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compare_tokenizers(write(tmp_path / "t"), write(tmp_path / "d", lower_case))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "t"]


def test_encoder_when_compared_with_transformers_then_gives_the_same_ids() -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(PAIR / "target")
    ours = open_encoder((PAIR / "target" / "tokenizer.json").read_bytes())
    for text in (*FIXED, "<|im_start|>user\nhi<|im_end|>", "a <think> b"):
        expected = theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.encode(text, add_special_tokens=False).ids == expected, text


def test_describe_when_an_id_is_given_then_tells_text_kind_and_roles(tmp_path: Path) -> None:
    shutil.copytree(PAIR / "target", tmp_path / "t")
    found = read_tokenizer(tmp_path / "t")
    assert found is not None
    mask = found.describe(3)
    assert (mask.text, mask.kind) == ("<|mask|>", "special")
    assert "eos" in found.describe(2).roles
    assert found.describe(300).kind == "ordinary"
    assert found.describe(5000).kind == "absent"
    think = next(item["id"] for item in BUNDLED["added_tokens"] if item["content"] == "<think>")
    assert found.describe(think).kind == "added"


def test_readable_when_a_token_is_byte_level_then_is_written_as_text(tmp_path: Path) -> None:
    found = read_tokenizer(PAIR / "target")
    assert found is not None
    tokenizer = open_encoder((PAIR / "target" / "tokenizer.json").read_bytes())
    for token_id in range(len(BUNDLED["added_tokens"]), 1024):
        text = tokenizer.decode([token_id], skip_special_tokens=False)
        assert found.readable(token_id) == text


DAMAGED = {
    "empty": (b"", "not a tokenizer file"),
    "cut short": ((PAIR / "target" / "tokenizer.json").read_bytes()[:5000], "not a tokenizer file"),
    "not UTF-8": (b'{"model": "\xff"}', "not a tokenizer file"),
    "a list": (b"[1]", "not a tokenizer file"),
    "deep": (b'{"normalizer": ' + b"[" * 200_000, "nested too deeply"),
    "no model": (b"{}", "no model"),
    "no vocabulary": (b'{"model": {"type": "BPE"}}', "no vocabulary"),
    "a negative id": (b'{"model": {"vocab": {"a": -1}}}', "holds the id -1"),
    "an absurd id": (b'{"model": {"vocab": {"a": 1000000000000}}}', "holds the id 1000000000000"),
    "a text as id": (b'{"model": {"vocab": {"a": "1"}}}', "not a tokenizer file"),
    "one id twice": (b'{"model": {"vocab": {"a": 1, "b": 1}}}', "gives id 1 to"),
    "no content": (
        b'{"model": {"vocab": {}}, "added_tokens": [{"id": 1}]}',
        "missing required field `content`",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_compare_when_a_file_is_damaged_then_says_why_and_classifies_nothing(
    name: str, tmp_path: Path
) -> None:
    content, said = DAMAGED[name]
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "tokenizer.json").write_bytes(content)
    found = compare_tokenizers(PAIR / "target", tmp_path / "d")
    assert found.draft is not None
    assert said in (found.draft.problem or "")
    assert found.classification is None


def test_compare_when_the_drafter_brings_none_or_another_format_then_says_so(tmp_path: Path) -> None:
    assert compare_tokenizers(PAIR / "target", tmp_path).draft is None
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    found = compare_tokenizers(PAIR / "target", tmp_path)
    assert found.draft is not None
    assert "another format" in (found.draft.problem or "")
    assert compare_tokenizers(PAIR / "target", None).draft is None


def test_compare_when_the_file_is_huge_a_pipe_or_a_link_out_then_is_not_read(tmp_path: Path) -> None:
    for name in ("huge", "pipe", "link"):
        (tmp_path / name).mkdir()
    with (tmp_path / "huge" / "tokenizer.json").open("wb") as file:
        file.truncate(1024**3)
    os.mkfifo(tmp_path / "pipe" / "tokenizer.json")
    (tmp_path / "link" / "tokenizer.json").symlink_to(PAIR / "target" / "tokenizer.json")
    for name, said in (("huge", "at most"), ("pipe", "regular file"), ("link", "link out of the folder")):
        found = read_tokenizer(tmp_path / name)
        assert found is not None
        assert said in (found.problem or "")


def test_compare_when_the_library_refuses_a_file_then_says_so(tmp_path: Path) -> None:
    def strange(document: dict[str, Any]) -> None:
        document["pre_tokenizer"] = {"type": "NoSuchThing"}

    found = compare_tokenizers(write(tmp_path / "t"), write(tmp_path / "d", strange))
    assert found.classification == "identical", "ids are compared all the same"
    assert found.behaviour_unchecked is not None


def test_compare_when_rules_grow_a_text_without_end_then_the_child_pays_and_the_check_goes_on(
    tmp_path: Path,
) -> None:
    def growing(document: dict[str, Any]) -> None:
        step = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
        document["normalizer"] = {"type": "Sequence", "normalizers": [step] * 4}

    found = compare_tokenizers(write(tmp_path / "t"), write(tmp_path / "d", growing))
    assert found.classification == "identical", "the ids are compared all the same"
    assert found.behaviour_unchecked is not None
    assert found.difference is None


def test_encode_when_texts_are_given_then_gives_their_ids() -> None:
    file = PAIR / "target" / "tokenizer.json"
    library = open_encoder(file.read_bytes())
    ids = encode(file, ["12", "<|im_end|>"])
    assert [[library.id_to_token(one) for one in text] for text in ids] == [["1", "2"], ["<|im_end|>"]]
    with pytest.raises(TokenizerFailedError, match="No such file"):
        encode(PAIR / "nowhere.json", ["x"])


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("model", "added_tokens", "normalizer", "decoder"), JSON_VALUES)
    )
    | st.builds(
        lambda vocab, added: {"model": {"vocab": vocab}, "added_tokens": added}, JSON_VALUES, JSON_VALUES
    )
)
def test_read_tokenizer_when_any_json_is_there_then_never_raises(
    tmp_path_factory: pytest.TempPathFactory, document: Any
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "tokenizer.json").write_text(json.dumps(document))
    found = read_tokenizer(folder)
    assert found is not None
    found.facts()


@given(st.binary(max_size=200))
def test_read_tokenizer_when_any_bytes_are_there_then_never_raises(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).write_bytes(content)
    assert read_tokenizer(folder) is not None
