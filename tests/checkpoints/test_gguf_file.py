"""Headers of GGUF files: metadata and tensors of sound ones, a reason for every other."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import gguf_bytes, write_gguf
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.checkpoints.files import UnfitFileError
from dflash_doctor.checkpoints.gguf_file import GgufHeader, LongArray, read_gguf
from dflash_doctor.contract.pair import Tensor

METADATA = {
    "general.architecture": "dflash",
    "dflash.block_size": 16,
    "dflash.rope.freq_base": 1000000.0,
    "dflash.attention.causal": False,
    "dflash.target_layers": [2, 10, 18],
    "tokenizer.ggml.tokens": ["a", "b"],
    "big": 2**40,
    "empty": [],
}
TENSORS = {"fc.weight": ("Q8_0", [64, 96]), "norm.weight": ("F32", [64])}


def packed(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def with_value(kind: int, content: bytes, *, num_keys: int = 1, num_tensors: int = 0) -> bytes:
    """A file with one key `k` of this type."""
    start = b"GGUF" + struct.pack("<IQQ", 3, num_tensors, num_keys)
    return start + packed(b"k") + struct.pack("<I", kind) + content


def refused(path: Path, content: bytes, size: int | None = None) -> str:
    path.write_bytes(content)
    if size is not None:
        os.truncate(path, size)
    with pytest.raises(UnfitFileError) as caught:
        read_gguf(path)
    return str(caught.value)


def test_read_gguf_when_file_is_sound_then_gives_metadata_and_tensors(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", METADATA, TENSORS)
    header = read_gguf(path)
    assert header.metadata == METADATA
    assert header.tensors == (Tensor("fc.weight", "Q8_0", (64, 96)), Tensor("norm.weight", "F32", (64,)))
    assert header.file_size == path.stat().st_size


@pytest.mark.parametrize("version", [2, 3])
def test_read_gguf_when_version_is_known_then_reads_it(tmp_path: Path, version: int) -> None:
    content, size = gguf_bytes(METADATA, TENSORS, version=version)
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    os.truncate(path, size)
    assert len(read_gguf(path).tensors) == 2


@pytest.mark.parametrize("version", [0, 1, 4, 2**24 * 3])
def test_read_gguf_when_version_is_another_then_says_so(tmp_path: Path, version: int) -> None:
    content, _ = gguf_bytes(METADATA, TENSORS, version=version)
    assert f"it is GGUF version {version}; versions 2 and 3 are read" in refused(tmp_path / "m", content)


def test_read_gguf_when_file_is_cut_at_any_byte_then_says_so(tmp_path: Path) -> None:
    content, size = gguf_bytes(METADATA, TENSORS)
    path = tmp_path / "m.gguf"
    for length in range(len(content)):
        assert refused(path, content[:length]) in (
            "it is cut short within its header",
            "it is not a GGUF file",
        )
    for length in (len(content), size - 33):
        assert "it is cut short: " in refused(path, content, length)


def test_read_gguf_when_arrays_are_long_then_only_counts_them(tmp_path: Path) -> None:
    metadata = {"tokens": ["x"] * 5000, "scores": [0.5] * 5000, "short": [1] * 4096}
    header = read_gguf(write_gguf(tmp_path / "m.gguf", metadata, {}))
    assert header.metadata == {"tokens": LongArray(5000), "scores": LongArray(5000), "short": [1] * 4096}


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        (8, struct.pack("<Q", 64 * 1024 * 1024), "holds a text of 67,108,864 bytes"),
        (8, struct.pack("<Q", 2**64 - 1), "holds a text of"),
        (9, struct.pack("<IQ", 9, 1), "holds an array of arrays"),
        (9, struct.pack("<IQ", 4, 2**64 - 1), "cut short within its header"),
        (9, struct.pack("<IQ", 8, 2**64 - 1), "holds an array of 18,446,744,073,709,551,615 texts"),
        (9, struct.pack("<IQ", 8, 2_000_001), "holds an array of 2,000,001 texts"),
        (9, struct.pack("<IQ", 99, 1), "a value of unknown type 99"),
        (9, struct.pack("<IQ", 99, 5000), "an array of unknown type 99"),
        (99, b"", "a value of unknown type 99"),
    ],
)
def test_read_gguf_when_a_value_is_absurd_then_says_so(
    tmp_path: Path, kind: int, content: bytes, reason: str
) -> None:
    assert reason in refused(tmp_path / "m.gguf", with_value(kind, content), 1 << 40)


def test_read_gguf_when_counts_are_absurd_then_says_so(tmp_path: Path) -> None:
    for counts in ((2**63, 0), (0, 2**63), (1_000_001, 0), (0, 1_000_001)):
        content = b"GGUF" + struct.pack("<IQQ", 3, *counts)
        assert f"its header claims {max(counts):,} entries" in refused(tmp_path / "m.gguf", content, 1 << 40)


def test_read_gguf_when_its_texts_are_endless_then_stops_at_the_limit(tmp_path: Path) -> None:
    size = 16 * 1024 * 1024
    path = tmp_path / "m.gguf"
    with path.open("wb") as stream:
        stream.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 1000))
        place = stream.tell()
        for _ in range(20):
            stream.seek(place)
            stream.write(packed(b"k") + struct.pack("<IQ", 8, size))
            place = stream.tell() + size
        stream.truncate(1 << 40)
    with pytest.raises(UnfitFileError, match="longer than 268,435,456 bytes"):
        read_gguf(path)


def test_read_gguf_when_a_tensor_has_absurd_sides_then_says_so(tmp_path: Path) -> None:
    start = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + packed(b"w")
    many = start + struct.pack("<I", 2**32 - 1)
    assert "gives w 4294967295 dimensions" in refused(tmp_path / "a", many)
    huge = start + struct.pack("<I8QIQ", 8, *[2**64 - 1] * 8, 0, 0)
    assert "it is cut short: w ends at byte" in refused(tmp_path / "b", huge)


def test_read_gguf_when_a_tensor_type_is_unknown_then_names_its_number(tmp_path: Path) -> None:
    content = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + packed(b"w") + struct.pack("<IQIQ", 1, 7, 250, 0)
    path = tmp_path / "m.gguf"
    path.write_bytes(content + bytes(64))
    assert read_gguf(path).tensors == (Tensor("w", "type 250", (7,)),)


def test_read_gguf_when_alignment_is_nonsense_then_still_reads(tmp_path: Path) -> None:
    for alignment in (0, "x", True):
        path = write_gguf(tmp_path / "m.gguf", {"general.alignment": alignment}, TENSORS)
        assert len(read_gguf(path).tensors) == 2


def read_or_refuse(path: Path) -> GgufHeader | None:
    try:
        return read_gguf(path)
    except UnfitFileError:
        return None


@given(content=st.binary(max_size=300))
def test_read_gguf_when_bytes_are_arbitrary_then_reads_or_refuses(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("g") / "m.gguf"
    path.write_bytes(content)
    read_or_refuse(path)
    path.write_bytes(b"GGUF" + struct.pack("<I", 3) + content)
    read_or_refuse(path)


@given(place=st.integers(4, 400), change=st.binary(min_size=1, max_size=9))
def test_read_gguf_when_a_sound_file_is_altered_then_reads_or_refuses(
    tmp_path_factory: pytest.TempPathFactory, place: int, change: bytes
) -> None:
    content, size = gguf_bytes(METADATA, TENSORS)
    altered = bytearray(content)
    altered[place : place + len(change)] = change
    path = tmp_path_factory.mktemp("g") / "m.gguf"
    path.write_bytes(altered)
    os.truncate(path, size)
    read_or_refuse(path)


VALUES = st.one_of(
    st.booleans(), st.integers(0, 2**40), st.text(max_size=9), st.floats(width=32, allow_nan=False)
)


@given(metadata=st.dictionaries(st.text(max_size=9), VALUES | st.lists(st.text(max_size=4), min_size=1)))
def test_read_gguf_when_any_metadata_was_written_then_gives_it_back(
    tmp_path_factory: pytest.TempPathFactory, metadata: dict[str, Any]
) -> None:
    alignment = {"general.alignment": 32}
    path = write_gguf(tmp_path_factory.mktemp("g") / "m.gguf", metadata | alignment, {})
    assert read_gguf(path).metadata == metadata | alignment
