"""The draft-vocabulary tables, summed up from their data."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from checkpoint_files import int64, vocab_maps, write_safetensors
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.checkpoints.safetensors_file import read_header
from dflash_doctor.checkpoints.vocab_map import read_vocab_maps
from dflash_doctor.contract.pair import Problem, VocabMap

Shapes = dict[str, tuple[str, list[int]]]


def maps_of(
    folder: Path, shapes: Shapes, data: dict[str, bytes]
) -> tuple[tuple[VocabMap, ...], tuple[Problem, ...]]:
    return read_vocab_maps([read_header(write_safetensors(folder / "m.safetensors", shapes, data))])


def test_read_vocab_maps_when_both_tables_are_sound_then_they_agree(tmp_path: Path) -> None:
    maps, problems = maps_of(tmp_path, *vocab_maps(8, 80))
    assert problems == ()
    assert maps == (
        VocabMap(name="d2t", length=8, all_zero=False, lowest_target=0, highest_target=70, num_distinct=8),
        VocabMap(name="t2d", length=80, all_zero=False, num_true=8, agrees_with_other=True),
    )


def test_read_vocab_maps_when_tables_name_other_tokens_then_they_disagree(tmp_path: Path) -> None:
    shapes, data = vocab_maps(8, 80)
    flags = bytearray(data["t2d"])
    flags[70], flags[71] = 0, 1
    maps, _ = maps_of(tmp_path, shapes, data | {"t2d": bytes(flags)})
    assert maps[1].agrees_with_other is False


def test_read_vocab_maps_when_tables_are_holes_then_all_is_zero(tmp_path: Path) -> None:
    shapes, _ = vocab_maps(8, 80)
    maps, _ = maps_of(tmp_path, shapes, {})
    assert [item.all_zero for item in maps] == [True, True]
    assert (maps[0].lowest_target, maps[0].highest_target, maps[0].num_distinct) == (0, 7, 8)
    assert maps[1].num_true == 0


def test_read_vocab_maps_when_one_table_is_there_then_agreement_is_unknown(tmp_path: Path) -> None:
    shapes, data = vocab_maps(4, 8)
    maps, _ = maps_of(tmp_path, {"t2d": shapes["t2d"]}, {"t2d": data["t2d"]})
    assert [(item.name, item.agrees_with_other) for item in maps] == [("t2d", None)]


@pytest.mark.parametrize("prefix", ["", "model."])
@pytest.mark.parametrize(("dtype", "code"), [("I64", "q"), ("I32", "i"), ("I16", "h")])
def test_read_vocab_maps_when_offsets_are_of_any_whole_type_then_reads_them(
    tmp_path: Path, prefix: str, dtype: str, code: str
) -> None:
    data = {prefix + "d2t": array(code, [5, -1, 0]).tobytes()}
    (found,), problems = maps_of(tmp_path, {prefix + "d2t": (dtype, [3])}, data)
    assert problems == ()
    assert (found.lowest_target, found.highest_target, found.num_distinct) == (0, 5, 3)


@pytest.mark.parametrize(
    ("dtype", "shape", "seen"),
    [
        ("F32", [4], "it is F32 [4], not one row of whole numbers"),
        ("I64", [2, 2], "it is I64 [2, 2], not one row of whole numbers"),
        ("I64", [], "it is I64 [], not one row of whole numbers"),
        ("I64", [3_000_000], "d2t has 24,000,000 bytes; at most 16,777,216 are read"),
    ],
)
def test_read_vocab_maps_when_a_table_is_unfit_then_says_why_and_reads_the_other(
    tmp_path: Path, dtype: str, shape: list[int], seen: str
) -> None:
    maps, (problem,) = maps_of(tmp_path, {"d2t": (dtype, shape), "t2d": ("BOOL", [4])}, {})
    assert [item.name for item in maps] == ["t2d"]
    assert (problem.what, problem.seen, problem.field) == ("the table d2t cannot be read", seen, "d2t")


def test_read_vocab_maps_when_table_is_empty_then_has_no_range(tmp_path: Path) -> None:
    (found,), _ = maps_of(tmp_path, {"d2t": ("I64", [0])}, {})
    assert (found.length, found.lowest_target, found.highest_target) == (0, None, None)


def test_read_vocab_maps_when_there_are_no_tables_then_gives_none(tmp_path: Path) -> None:
    assert maps_of(tmp_path, {"w": ("F32", [1])}, {}) == ((), ())


@given(targets=st.lists(st.integers(0, 500), min_size=1, max_size=40))
def test_read_vocab_maps_when_offsets_lead_anywhere_then_counts_and_bounds_hold(
    tmp_path_factory: pytest.TempPathFactory, targets: list[int]
) -> None:
    data = {"d2t": int64([target - index for index, target in enumerate(targets)])}
    (found,), _ = maps_of(tmp_path_factory.mktemp("v"), {"d2t": ("I64", [len(targets)])}, data)
    assert (found.lowest_target, found.highest_target) == (min(targets), max(targets))
    assert found.num_distinct == len(set(targets))
