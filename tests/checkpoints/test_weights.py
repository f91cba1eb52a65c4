"""Weight files of a folder: found, compared with the index, and every defect named."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from checkpoint_files import INDEX_NAME, write_gguf, write_json, write_safetensors, write_sharded

from dflash_doctor.checkpoints.weights import Weights, read_gguf_weights, read_weights

TENSORS = {f"layers.{index}.w": ("BF16", [4]) for index in range(6)}


def whats(weights: Weights) -> list[str]:
    return [item.what for item in weights.problems]


def names(weights: Weights) -> set[str]:
    return {item.name for item in weights.tensors or ()}


def test_read_weights_when_one_file_holds_all_then_lists_its_tensors(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "model.safetensors", TENSORS)
    weights = read_weights(tmp_path)
    assert (weights.format, weights.problems) == ("safetensors", [])
    assert names(weights) == set(TENSORS)
    assert weights.num_bytes == path.stat().st_size


def test_read_weights_when_files_are_sharded_then_lists_the_tensors_of_all(tmp_path: Path) -> None:
    write_sharded(tmp_path, TENSORS, 3)
    weights = read_weights(tmp_path)
    assert weights.problems == []
    assert names(weights) == set(TENSORS)
    assert len(weights.headers) == 3


def test_read_weights_when_a_shard_is_missing_then_says_which_and_reads_the_others(tmp_path: Path) -> None:
    write_sharded(tmp_path, TENSORS, 3)
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    weights = read_weights(tmp_path)
    (problem,) = weights.problems
    assert problem.severity == "error"
    assert problem.what == "the weight file model-00002-of-00003.safetensors is missing"
    assert problem.seen == "the index puts 2 tensors into it"
    assert len(names(weights)) == 4


def test_read_weights_when_a_shard_is_cut_short_then_says_so_and_reads_the_others(tmp_path: Path) -> None:
    write_sharded(tmp_path, TENSORS, 2)
    os.truncate(tmp_path / "model-00001-of-00002.safetensors", 12)
    weights = read_weights(tmp_path)
    assert whats(weights) == ["the weight file model-00001-of-00002.safetensors cannot be read"]
    assert len(names(weights)) == 3


@pytest.mark.parametrize("name", ["../../x.safetensors", "/etc/passwd", "a/b.safetensors", "."])
def test_read_weights_when_index_leaves_the_folder_then_does_not_follow(tmp_path: Path, name: str) -> None:
    write_json(tmp_path / INDEX_NAME, {"weight_map": {"w": name}})
    weights = read_weights(tmp_path)
    assert [(item.what, item.seen) for item in weights.problems] == [
        ("the index names a file outside the folder", name)
    ]


@pytest.mark.parametrize("name", ["", "..", "a\0b", "x" * 5000, "\ud800"])
def test_read_weights_when_index_names_no_file_then_says_so(tmp_path: Path, name: str) -> None:
    write_json(tmp_path / INDEX_NAME, {"weight_map": {"w": name}})
    weights = read_weights(tmp_path)
    assert len(weights.problems) == 1
    assert weights.problems[0].severity == "error"
    assert weights.tensors is None


def test_read_weights_when_index_is_huge_then_names_a_few_files_and_their_number(tmp_path: Path) -> None:
    table = {f"t{index}": f"f{index:06}.safetensors" for index in range(100_000)}
    (tmp_path / INDEX_NAME).write_text(json.dumps({"weight_map": table}))
    weights = read_weights(tmp_path)
    assert len(weights.problems) == 10
    assert weights.problems[0].seen == "the index puts 1 tensors into it; 100,000 such files in all"


def test_read_weights_when_tensors_of_the_index_are_not_there_then_counts_them(tmp_path: Path) -> None:
    write_sharded(tmp_path, TENSORS, 1)
    table = dict.fromkeys([*TENSORS, "more.0", "more.1"], "model-00001-of-00001.safetensors")
    write_json(tmp_path / INDEX_NAME, {"weight_map": table})
    (problem,) = read_weights(tmp_path).problems
    assert problem.what == "tensors of the index are not in the file that it names"
    assert problem.seen == "2, first more.0 (in model-00001-of-00001.safetensors)"


@pytest.mark.parametrize("value", [{}, {"weight_map": 3}, {"weight_map": {"w": 3}}])
def test_read_weights_when_index_has_no_map_then_says_so_and_reads_the_files(
    tmp_path: Path, value: object
) -> None:
    write_safetensors(tmp_path / "model.safetensors", TENSORS)
    write_json(tmp_path / INDEX_NAME, value)
    weights = read_weights(tmp_path)
    assert whats(weights) == ["the index has no weight_map"]
    assert names(weights) == set(TENSORS)


def test_read_weights_when_index_is_broken_then_says_so_and_reads_the_files(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", TENSORS)
    (tmp_path / INDEX_NAME).write_text("{")
    weights = read_weights(tmp_path)
    assert whats(weights) == [f"{INDEX_NAME} cannot be read"]
    assert names(weights) == set(TENSORS)


def test_read_weights_when_a_type_is_unknown_then_warns_and_keeps_the_tensors(tmp_path: Path) -> None:
    header = json.dumps({"w": {"dtype": "Q9", "shape": [1], "data_offsets": [0, 1]}}).encode()
    content = len(header).to_bytes(8, "little") + header + b"\0"
    (tmp_path / "model.safetensors").write_bytes(content)
    weights = read_weights(tmp_path)
    (problem,) = weights.problems
    assert (problem.severity, problem.what) == (
        "warning",
        "the type Q9 is none of the safetensors format",
    )
    assert names(weights) == {"w"}


def test_read_weights_when_file_links_out_of_the_folder_then_does_not_follow(tmp_path: Path) -> None:
    outside = write_safetensors(tmp_path / "other" / "model.safetensors", TENSORS)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").symlink_to(outside)
    weights = read_weights(folder)
    assert "a link out of the folder" in weights.problems[0].seen
    assert weights.tensors is None


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to(path)])
def test_read_weights_when_file_is_no_plain_one_then_says_so(tmp_path: Path, make: object) -> None:
    make(tmp_path / "model.safetensors")  # type: ignore[operator]
    assert whats(read_weights(tmp_path)) == ["the weight file model.safetensors cannot be read"]


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("pytorch_model.bin", "other"),
        ("consolidated.pth", "other"),
        ("mask_embedding.pt", None),
        ("training_args.bin", None),
        ("README.md", None),
    ],
)
def test_read_weights_when_there_are_no_headers_then_tells_the_format(
    tmp_path: Path, file: str, kind: str | None
) -> None:
    (tmp_path / file).touch()
    weights = read_weights(tmp_path)
    assert (weights.format, weights.tensors, weights.num_bytes) == (kind, None, 0)


def test_read_weights_when_folder_holds_a_gguf_file_then_reads_it(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {"a": 1}, {"w": ("F32", [3])})
    weights = read_weights(tmp_path)
    assert (weights.format, weights.gguf_file, names(weights)) == ("gguf", path, {"w"})
    assert weights.num_bytes == path.stat().st_size


def test_read_gguf_weights_when_file_is_broken_then_says_so(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    weights = read_gguf_weights(tmp_path / "m.gguf")
    assert whats(weights) == ["the weight file m.gguf cannot be read"]
    assert weights.tensors is None


def test_read_weights_when_folder_cannot_be_listed_then_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    weights = read_weights(tmp_path)
    assert whats(weights) == ["the folder cannot be listed, so its weight files are not known"]
    assert weights.format is None
