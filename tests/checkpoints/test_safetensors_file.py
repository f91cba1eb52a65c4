"""Headers of safetensors files: sound ones are read, and no other one is believed."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest
from checkpoint_files import int64, safetensors_header, write_safetensors
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.checkpoints.files import UnfitFileError
from dflash_doctor.checkpoints.safetensors_file import (
    BITS,
    Header,
    Placed,
    read_header,
    read_tensor_bytes,
)
from dflash_doctor.contract.pair import Tensor

SOUND = {"a": ("BF16", [2, 3]), "b": ("I64", [4]), "empty": ("F32", [0]), "scalar": ("F32", [])}


def raw_file(path: Path, table: Any, *, size: int = 0, header: bytes | None = None) -> Path:
    text = json.dumps(table).encode() if header is None else header
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(size))
    return path


def entry(begin: int, end: int, *, dtype: str = "U8", shape: list[int] | None = None) -> dict[str, Any]:
    return {
        "dtype": dtype,
        "shape": [end - begin] if shape is None else shape,
        "data_offsets": [begin, end],
    }


def test_read_header_when_file_is_sound_then_gives_tensors_and_places(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "m.safetensors", SOUND, {"b": int64([1, 2, 3, -4])})
    header = read_header(path)
    assert [item.tensor for item in header.placed] == [
        Tensor("a", "BF16", (2, 3)),
        Tensor("b", "I64", (4,)),
        Tensor("empty", "F32", (0,)),
        Tensor("scalar", "F32", ()),
    ]
    assert header.file_size == path.stat().st_size
    place = header.place_of("b")
    assert place is not None
    assert read_tensor_bytes(path, place, max_bytes=32) == int64([1, 2, 3, -4])
    assert header.place_of("c") is None


def test_read_header_when_weights_are_400_gigabytes_then_reads_only_the_header(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "m.safetensors", {"w": ("BF16", [200_000, 1_000_000])})
    assert path.stat().st_blocks * 512 < 1_000_000
    assert read_header(path).file_size > 400e9


@pytest.mark.parametrize("dtype", sorted(BITS))
def test_read_header_when_type_is_of_the_format_then_checks_its_size(tmp_path: Path, dtype: str) -> None:
    size = 8 * BITS[dtype] // 8
    good = raw_file(tmp_path / "a.safetensors", {"w": entry(0, size, dtype=dtype, shape=[8])}, size=size)
    assert read_header(good).placed[0].tensor.dtype == dtype
    bad = raw_file(
        tmp_path / "b.safetensors", {"w": entry(0, size + 1, dtype=dtype, shape=[8])}, size=size + 1
    )
    with pytest.raises(UnfitFileError, match=f"gives w {size + 1} bytes"):
        read_header(bad)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"a": entry(0, 9), "b": entry(8, 16)}, "lets a and b overlap"),
        ({"a": entry(0, 16), "e": entry(8, 8)}, "lets a and e overlap"),
        ({"a": entry(0, 16), "e": entry(8, 8), "b": entry(9, 12)}, "lets a and e overlap"),
        ({"a": entry(0, 8), "b": entry(9, 16)}, "leaves 1 bytes between a and b"),
        ({"a": entry(1, 16)}, "leaves 1 bytes between the header and a"),
        ({"a": entry(0, 15)}, "it has 1 bytes behind its last tensor"),
        ({}, "it has 16 bytes behind its last tensor"),
        ({"a": entry(0, 17)}, "it is cut short: a ends at byte"),
        ({"a": entry(0, 99), "e": entry(99, 99)}, "it is cut short: e ends at byte"),
        ({"e": entry(99, 99)}, "leaves 99 bytes between the header and e"),
        ({"a": entry(-8, 0)}, "gives a the place -8 to 0"),
        ({"a": entry(8, 0, shape=[8])}, "gives a the place 8 to 0"),
        ({"a": entry(0, 8, shape=[-8])}, "gives a the place 0 to 8 and the shape"),
        ({"a": entry(0, 8, shape=[-2, -4])}, "gives a the place 0 to 8 and the shape"),
        ({"a": entry(0, 8, shape=[9])}, "gives a 8 bytes; U8"),
        ({"a": entry(0, 8, shape=[10**18] * 16)}, "gives a 8 bytes; U8"),
        ({"a": entry(0, 8, shape=[2**62] * 17)}, "gives a 17 dimensions"),
        ({"a": entry(0, 8, shape=[1] * 100_000)}, "gives a 100,000 dimensions"),
        ({"a": {"dtype": "U8", "shape": [8]}}, "not what the format says: a lacks its type or its place"),
        ({"a": {"dtype": "U8", "shape": "8", "data_offsets": [0, 8]}}, "not what the format says"),
        ({"a": {"dtype": 3, "shape": [8], "data_offsets": [0, 8]}}, "not what the format says"),
        ({"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 4, 8]}}, "not what the format says"),
        ({"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8.5]}}, "not what the format says"),
        ({"a": {"dtype": "U8", "shape": [True], "data_offsets": [0, 1]}}, "not what the format says"),
        ({"a": 1}, "not what the format says"),
        ([1], "not what the format says"),
    ],
)
def test_read_header_when_it_contradicts_itself_then_says_how(
    tmp_path: Path, table: Any, reason: str
) -> None:
    path = raw_file(tmp_path / "m.safetensors", table, size=16)
    with pytest.raises(UnfitFileError, match=reason):
        read_header(path)


@pytest.mark.parametrize(
    "header", [b"", b"x", b"{", b'{"a"', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 5000, b"null"]
)
def test_read_header_when_it_is_no_json_object_then_says_so(tmp_path: Path, header: bytes) -> None:
    with pytest.raises(UnfitFileError, match="not what the format says"):
        read_header(raw_file(tmp_path / "m.safetensors", None, header=header))


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 10**12, 100 * 1024 * 1024 + 1])
def test_read_header_when_its_length_is_absurd_then_reads_nothing(tmp_path: Path, length: int) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{}")
    os.truncate(path, 1 << 40)
    with pytest.raises(UnfitFileError, match="the format allows 104,857,600"):
        read_header(path)


def test_read_header_when_there_are_absurdly_many_tensors_then_refuses(tmp_path: Path) -> None:
    entry = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    body = ",".join(f'"{index}":{entry}' for index in range(200_001))
    path = raw_file(tmp_path / "m.safetensors", None, header=("{" + body + "}").encode())
    with pytest.raises(UnfitFileError, match="lists 200,001 tensors"):
        read_header(path)


def test_read_header_when_file_is_cut_at_any_byte_then_says_so(tmp_path: Path) -> None:
    header, _, size = safetensors_header(SOUND)
    whole = header + bytes(size)
    path = tmp_path / "m.safetensors"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(UnfitFileError):
            read_header(path)
    path.write_bytes(whole)
    assert len(read_header(path).placed) == 4


def test_read_header_when_a_type_is_unknown_then_keeps_the_tensor(tmp_path: Path) -> None:
    path = raw_file(tmp_path / "m.safetensors", {"a": entry(0, 5, dtype="Q9", shape=[99])}, size=5)
    assert read_header(path).placed[0].tensor == Tensor("a", "Q9", (99,))


def test_read_tensor_bytes_when_it_is_larger_than_allowed_then_does_not_read_it(tmp_path: Path) -> None:
    placed = Placed(Tensor("d2t", "I64", (10**9,)), 0, 8 * 10**9)
    with pytest.raises(UnfitFileError, match="d2t has 8,000,000,000 bytes; at most 100 are read"):
        read_tensor_bytes(tmp_path / "none", placed, max_bytes=100)


PLACES = st.tuples(st.integers(0, 6), st.integers(0, 3))


@given(places=st.lists(PLACES, max_size=4), size=st.integers(0, 9))
def test_read_header_when_places_are_arbitrary_then_agrees_with_the_safetensors_package(
    tmp_path_factory: pytest.TempPathFactory, places: list[tuple[int, int]], size: int
) -> None:
    safetensors = pytest.importorskip("safetensors")
    table = {f"t{number}": entry(begin, begin + length) for number, (begin, length) in enumerate(places)}
    path = raw_file(tmp_path_factory.mktemp("s") / "m.safetensors", table, size=size)
    try:
        with safetensors.safe_open(path, "np") as file:
            theirs = set(file.keys())
    except safetensors.SafetensorError:
        theirs = None
    ours = read_all(path)
    assert (None if ours is None else {item.tensor.name for item in ours.placed}) == theirs


def read_all(path: Path) -> Header | None:
    try:
        return read_header(path)
    except UnfitFileError as error:
        msgspec.json.encode(str(error))
        return None


@given(content=st.binary(max_size=300))
def test_read_header_when_bytes_are_arbitrary_then_reads_or_refuses(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("s") / "m.safetensors"
    path.write_bytes(content)
    read_all(path)
    path.write_bytes(struct.pack("<Q", len(content)) + content)
    read_all(path)


@given(place=st.integers(8, 250), change=st.binary(min_size=1, max_size=6))
def test_read_header_when_a_sound_file_is_altered_then_reads_or_refuses(
    tmp_path_factory: pytest.TempPathFactory, place: int, change: bytes
) -> None:
    header, _, size = safetensors_header(SOUND)
    whole = bytearray(header + bytes(size))
    whole[place : place + len(change)] = change
    path = tmp_path_factory.mktemp("s") / "m.safetensors"
    path.write_bytes(whole)
    found = read_all(path)
    if found is not None:
        assert all(0 <= item.start <= item.end <= found.file_size for item in found.placed)


@given(
    tensors=st.dictionaries(
        st.text(min_size=1, max_size=12).filter(lambda name: name != "__metadata__"),
        st.tuples(st.sampled_from(sorted(BITS)), st.lists(st.integers(0, 9), max_size=4)),
        max_size=8,
    )
)
def test_read_header_when_any_tensors_were_written_then_gives_them_back(
    tmp_path_factory: pytest.TempPathFactory, tensors: dict[str, tuple[str, list[int]]]
) -> None:
    path = write_safetensors(tmp_path_factory.mktemp("s") / "m.safetensors", tensors)
    found = {
        item.tensor.name: (item.tensor.dtype, list(item.tensor.shape)) for item in read_header(path).placed
    }
    assert found == tensors


def test_read_header_when_the_file_is_a_git_lfs_pointer_then_says_so(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 17\n")
    with pytest.raises(UnfitFileError, match="Git LFS pointer"):
        read_header(path)
