"""Tokenizers are compared by what ids stand for and by what becomes of text."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from doctor_process import PAIR
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_folders import added, byte_level_bpe, changed, swapped, write
from tokenizers import Tokenizer

from dflash_doctor.checkpoints.token_text import alphabet_of, bytes_of
from dflash_doctor.checkpoints.tokenizer_behaviour import compare_behaviour, encode_texts, side_of
from dflash_doctor.checkpoints.tokenizer_behaviour_child import _load, _smallest
from dflash_doctor.checkpoints.tokenizer_file import read_tokenizer
from dflash_doctor.checkpoints.tokenizer_parity import compare_tokenizers
from dflash_doctor.checkpoints.tokenizer_texts import BATTERY
from dflash_doctor.contract.tokenizers import TokenConflict, TokenizerComparison

DOCUMENT = byte_level_bpe()
NEXT = 351
"""The first free id."""


@pytest.fixture
def compare(tmp_path: Path) -> Callable[..., TokenizerComparison]:
    """Compares the small tokenizer with another; keyword arguments are the drafter's other files."""

    def run(draft: dict[str, Any], target: dict[str, Any] = DOCUMENT, **others: Any) -> TokenizerComparison:
        folders = write(tmp_path / "target", target), write(tmp_path / "draft", draft, **others)
        return compare_tokenizers(*folders)

    return run


def test_compare_when_it_is_the_tiny_pair_then_is_identical_without_loading_anything() -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from dflash_doctor.checkpoints.tokenizer_parity import compare_tokenizers\n"
        "found = compare_tokenizers(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "loaded = {'tokenizers', 'hypothesis', 'transformers', 'numpy'} & set(sys.modules)\n"
        "print(found.classification, found.same_file, found.setting_differences, loaded)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script, str(PAIR / "target"), str(PAIR / "draft")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == "identical True () set()"


def test_compare_when_only_the_spelling_differs_then_is_identical(compare: Any) -> None:
    draft = copy.deepcopy(DOCUMENT)
    draft["model"]["merges"] = [" ".join(pair) for pair in draft["model"]["merges"]]
    draft["model"]["vocab"] = dict(reversed(draft["model"]["vocab"].items()))
    draft["model"]["continuing_subword_prefix"] = ""
    found = compare(draft)
    assert (found.classification, found.section_differences, found.behaviour) == ("identical", (), None)
    assert not found.same_file


def test_compare_when_rows_differ_then_only_unused_ones_are_padding(tmp_path: Path) -> None:
    folders = [write(tmp_path / side, DOCUMENT, config={"vocab_size": 384}) for side in ("t", "d")]
    assert compare_tokenizers(*folders).classification == "identical"
    assert compare_tokenizers(*folders, draft_rows=512).classification == "padding-only"
    write(folders[1], DOCUMENT, config={"text_config": {"vocab_size": 360}})
    assert compare_tokenizers(*folders).classification == "padding-only"
    assert compare_tokenizers(*folders, draft_rows=100).classification == "identical"


def test_compare_when_two_ids_are_swapped_then_conflicts_with_both_texts(compare: Any) -> None:
    vocab = DOCUMENT["model"]["vocab"]
    one, another = vocab["\u0120the"], vocab["\u0120quick"]
    found = compare(swapped(DOCUMENT, one, another))
    assert (found.classification, found.num_conflicting) == ("conflicting", 2)
    by_id = {item.id: item for item in found.conflicts}
    assert by_id[one] == TokenConflict(id=one, target_text=" the", draft_text=" quick")
    assert by_id[another] == TokenConflict(id=another, target_text=" quick", draft_text=" the")


def test_compare_when_a_text_moved_to_a_new_id_then_conflicts(compare: Any) -> None:
    target = changed(DOCUMENT, added_tokens=[*DOCUMENT["added_tokens"], added(NEXT, "<x>")])
    draft = changed(DOCUMENT, added_tokens=[*DOCUMENT["added_tokens"], added(NEXT + 1, "<x>")])
    found = compare(draft, target)
    assert found.classification == "conflicting"
    assert found.conflicts[0] == TokenConflict(id=NEXT, target_text="<x>", draft_text=None)


def test_compare_when_all_ids_are_shifted_then_counts_all_and_keeps_ten(compare: Any) -> None:
    draft = copy.deepcopy(DOCUMENT)
    draft["model"]["vocab"] = {text: number + 1 for text, number in DOCUMENT["model"]["vocab"].items()}
    draft["added_tokens"] = [entry | {"id": entry["id"] + 1} for entry in DOCUMENT["added_tokens"]]
    found = compare(draft)
    assert found.classification == "conflicting"
    assert found.num_conflicting == NEXT + 1
    assert len(found.conflicts) == 10
    msgspec.json.encode(found)


def test_compare_when_one_side_has_more_tokens_then_is_suffix_added_and_shows_them(compare: Any) -> None:
    found = compare(changed(DOCUMENT, added_tokens=[*DOCUMENT["added_tokens"], added(NEXT, "<x>")]))
    assert (found.classification, found.num_target_only, found.num_draft_only) == ("suffix-added", 0, 1)
    assert found.one_sided == (TokenConflict(id=NEXT, target_text=None, draft_text="<x>"),)
    assert found.behaviour.difference.text == "<x>"
    assert found.behaviour.difference.one_sided_token == "<x>"


def test_compare_when_the_extra_token_stands_in_another_file_then_finds_it_too(compare: Any) -> None:
    found = compare(DOCUMENT, tokenizer_config={"mask_token": "<new>"})
    assert (found.classification, found.num_draft_only, found.same_file) == ("suffix-added", 1, False)


def test_compare_when_digits_are_split_differently_then_shrinks_to_two_characters(compare: Any) -> None:
    found = compare(byte_level_bpe(digits="single"))
    assert (found.classification, found.section_differences) == ("identical", ("pre_tokenizer",))
    difference = found.behaviour.difference
    assert len(difference.text) == 2
    assert difference.text.isdecimal()
    assert (len(difference.target_ids), len(difference.draft_ids)) == (1, 2)
    assert difference.draft_tokens == tuple(difference.text)


@pytest.mark.parametrize(
    ("sections", "expected_length"),
    [
        ({"normalizer": {"type": "NFC"}}, 2),
        ({"normalizer": {"type": "Lowercase"}}, 1),
        ({"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}, 1),
        ({"normalizer": {"type": "Replace", "pattern": {"String": "\r\n"}, "content": "\n"}}, 2),
    ],
    ids=["nfc", "lowercase", "strip", "line-ends"],
)
def test_compare_when_the_normalizer_differs_then_finds_the_smallest_text(
    sections: dict[str, Any], expected_length: int, compare: Any
) -> None:
    found = compare(changed(DOCUMENT, **sections))
    assert (found.classification, found.section_differences) == ("identical", ("normalizer",))
    assert len(found.behaviour.difference.text) == expected_length
    assert found.behaviour.unchecked == ""


def test_compare_when_one_merge_is_missing_then_finds_the_word(compare: Any) -> None:
    draft = copy.deepcopy(DOCUMENT)
    draft["model"]["merges"] = draft["model"]["merges"][:-1]
    found = compare(draft)
    assert found.section_differences == ("model",)
    assert found.behaviour.difference is not None


def test_compare_when_a_flag_differs_then_shows_the_token_and_a_text(compare: Any) -> None:
    entries = [DOCUMENT["added_tokens"][0] | {"lstrip": True}, *DOCUMENT["added_tokens"][1:]]
    found = compare(changed(DOCUMENT, added_tokens=entries))
    assert (found.classification, found.num_flag_differences) == ("identical", 1)
    assert found.flag_differences[0].target_flags == ("special",)
    assert found.flag_differences[0].draft_flags == ("special", "lstrip")
    assert found.behaviour.difference.text.endswith("<|end|>")
    assert len(found.behaviour.difference.text) == len("<|end|>") + 1


def test_compare_when_one_side_puts_a_token_around_then_says_so(compare: Any) -> None:
    around = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<|start|>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|start|>": {"id": "<|start|>", "ids": [1], "tokens": ["<|start|>"]}},
    }
    difference = compare(changed(DOCUMENT, post_processor=around)).behaviour.difference
    assert difference.with_special_tokens
    assert difference.draft_tokens == ("<|start|>", "a")


def test_compare_when_roles_contradict_then_lists_them_and_not_what_one_side_leaves_out(
    tmp_path: Path,
) -> None:
    target = write(
        tmp_path / "t", DOCUMENT, tokenizer_config={"eos_token": "<|end|>", "pad_token": "<|end|>"}
    )
    draft = write(
        tmp_path / "d", DOCUMENT, tokenizer_config={"eos_token": "<|start|>", "mask_token": "<|mask|>"}
    )
    found = compare_tokenizers(target, draft)
    assert found.classification == "identical"
    assert [(item.key, item.target, item.draft) for item in found.setting_differences] == [
        ("eos_token", "<|end|>", "<|start|>")
    ]


def test_compare_when_run_twice_then_says_the_same_and_leaves_nothing(
    compare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    draft = byte_level_bpe(digits="single")
    assert compare(draft) == compare(draft)
    assert list(here.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_compare_when_the_drafter_brings_nothing_then_is_unchecked(tmp_path: Path) -> None:
    target = write(tmp_path / "t", DOCUMENT)
    (tmp_path / "d").mkdir()
    for folder in (tmp_path / "d", tmp_path / "none"):
        found = compare_tokenizers(target, folder)
        assert (found.classification, found.draft) == (None, None)
        assert found.unchecked == "the drafter has no tokenizer files"
    assert compare_tokenizers(target, None).unchecked == "there is no drafter folder"
    assert compare_tokenizers(tmp_path / "d", target).unchecked == "the target has no tokenizer files"


HOSTILE = {
    "memory": {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 99999}] * 3,
        }
    },
    "panic": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA/////w=="}},
    "refused": {"normalizer": {"type": "NoSuchThing"}},
    "regex": {
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": "(((("},
            "behavior": "Isolated",
            "invert": False,
        }
    },
}


@pytest.mark.parametrize("sections", HOSTILE.values(), ids=HOSTILE)
def test_compare_when_a_file_takes_the_library_down_then_says_so_and_goes_on(
    sections: dict[str, Any], compare: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    found = compare(changed(DOCUMENT, **sections))
    assert found.classification == "identical"
    assert "the tokenizers library" in found.behaviour.unchecked
    assert found.behaviour.difference is None
    assert capfd.readouterr() == ("", "")


def test_compare_when_a_side_backtracks_then_gives_up_or_shows_what_it_found(compare: Any) -> None:
    split = {"type": "Split", "pattern": {"Regex": "(.|.)*\x07"}, "behavior": "Isolated", "invert": False}
    found = compare(changed(DOCUMENT, pre_tokenizer=split)).behaviour
    assert found.difference is not None or "drafter's tokenizer fails on" in found.unchecked


def test_behaviour_when_time_is_over_then_says_so(tmp_path: Path) -> None:
    target = read_tokenizer(write(tmp_path / "t", DOCUMENT))
    draft = read_tokenizer(write(tmp_path / "d", byte_level_bpe(digits="single")))
    found = compare_behaviour(target, draft, max_examples=10, seed=0, time_limit_s=0.001)
    assert found.unchecked == "the tokenizers library took longer than 0.001 s"


def test_behaviour_when_the_working_folder_holds_modules_then_does_not_import_them(
    compare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tokenizers.py").write_text("open('ran', 'w')")
    (tmp_path / "hypothesis.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path)
    assert compare(byte_level_bpe(digits="single")).behaviour.difference is not None
    assert not (tmp_path / "ran").exists()


def test_encode_when_texts_are_given_then_gives_their_ids(tmp_path: Path) -> None:
    library = Tokenizer.from_file(str(PAIR / "target" / "tokenizer.json"))
    texts = ["12", "<|im_end|>", "", "caf\u00e9"]
    ids = encode_texts(read_tokenizer(PAIR / "target"), texts)
    assert ids == [library.encode(text, add_special_tokens=False).ids for text in texts]
    assert encode_texts(read_tokenizer(tmp_path), texts) is None


@pytest.mark.parametrize("sections", HOSTILE.values(), ids=HOSTILE)
def test_encode_when_a_file_takes_the_library_down_then_gives_nothing(
    sections: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hostile = read_tokenizer(write(tmp_path, changed(DOCUMENT, **sections)))
    assert encode_texts(hostile, ["banana"]) is None
    assert encode_texts(read_tokenizer(PAIR / "target"), ["x"], time_limit_s=0.001) is None
    assert capfd.readouterr() == ("", "")


CONFIGS: list[dict[str, Any]] = [
    {},
    {"mask_token": "<new>", "extra_special_tokens": ["fox"]},
    {"added_tokens_decoder": {"351": {"content": "own", "single_word": True, "special": False}}},
    {
        "added_tokens_decoder": {
            "0": {"content": "<|end|>", "special": True, "lstrip": True, "normalized": False}
        }
    },
    {"split_special_tokens": True},
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: next(iter(config), "plain"))
def test_load_when_compared_with_transformers_then_ids_are_the_same(
    config: dict[str, Any], tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    folder = write(
        tmp_path, DOCUMENT, tokenizer_config=config | {"tokenizer_class": "PreTrainedTokenizerFast"}
    )
    theirs = AutoTokenizer.from_pretrained(folder)
    ours = _load(side_of("target", read_tokenizer(folder)))
    specials = ["<|end|>", " <|start|>x", "a <new>b", "the fox's own owner"]
    for text in (*BATTERY, *specials):
        assert ours.encode(text, add_special_tokens=False).ids == theirs.encode(
            text, add_special_tokens=False
        )


def test_load_when_it_is_the_bundled_target_then_ids_are_those_of_transformers() -> None:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    folder = PAIR / "target"
    ours = _load(side_of("target", read_tokenizer(folder)))
    auto = AutoTokenizer.from_pretrained(folder)
    plain = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    for text in (*BATTERY, "<think>\n\n</think>", "x<|im_end|> y"):
        expected = ours.encode(text, add_special_tokens=False).ids
        assert auto.encode(text, add_special_tokens=False) == expected
        assert plain.encode(text, add_special_tokens=False) == expected


@settings(deadline=None)
@given(st.text(max_size=40))
def test_bytes_of_when_a_text_is_tokenised_then_its_tokens_stand_for_its_bytes(text: str) -> None:
    tokenizer = Tokenizer.from_str(msgspec.json.encode(DOCUMENT).decode())
    tokens = tokenizer.encode(text, add_special_tokens=False).tokens
    alphabet = alphabet_of(DOCUMENT)
    assert alphabet == "byte-level"
    assert b"".join(bytes_of(token, alphabet) for token in tokens) == text.encode()


@pytest.mark.parametrize(
    ("token", "expected"), [("\u2581the", b" the"), ("<0x0A>", b"\n"), ("<0xZZ>", b"<0xZZ>"), ("a", b"a")]
)
def test_bytes_of_when_sentencepiece_wrote_it_then_is_undone(token: str, expected: bytes) -> None:
    assert alphabet_of({"decoder": {"type": "Metaspace", "replacement": "\u2581"}}) == "metaspace"
    assert bytes_of(token, "metaspace") == expected


@settings(deadline=None)
@given(
    st.text(alphabet="ab01 x\u00e9", min_size=1, max_size=30),
    st.text(alphabet="ab0\u00e9", min_size=1, max_size=3),
)
def test_smallest_when_a_text_holds_the_reason_then_leaves_only_it(around: str, reason: str) -> None:
    def differs(text: str) -> bool:
        return reason in text

    assert _smallest(around + reason + around, differs) == reason
