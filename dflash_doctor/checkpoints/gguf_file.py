"""Reads the header of a GGUF file: its key-value metadata and its tensor table. Weights are not touched.

Format: ggml-org/ggml, docs/gguf.md (versions 2 and 3, little-endian).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dflash_doctor.checkpoints.files import UnfitFileError, open_plain, read_some, shown
from dflash_doctor.contract.pair import Tensor

_MAGIC = b"GGUF"
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_MAX_ENTRIES = 1_000_000
_MAX_STRING = 16 * 1024 * 1024
_MAX_KEPT = 4096
"""Longer arrays (vocabularies, merges) are passed over and only counted."""
_MAX_DIMS = 8
_MAX_READ = 256 * 1024 * 1024
"""Bytes of a whole header; one with a vocabulary of a quarter of a million has some ten megabytes."""
_MAX_TEXTS = 2_000_000
"""Texts of one array."""
_ALIGNMENT = 32

TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K",
    11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS",
    19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32",
    27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
"""ggml's type numbers."""
_BLOCKS = {
    "F32": (1, 4), "F16": (1, 2), "BF16": (1, 2), "F64": (1, 8), "I8": (1, 1), "I16": (1, 2), "I32": (1, 4),
    "I64": (1, 8), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34),
    "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210),
}  # fmt: skip
"""Elements in a block of a type, and its bytes."""


@dataclass(frozen=True)
class LongArray:
    """An array of the metadata that was passed over."""

    length: int


@dataclass(frozen=True)
class GgufHeader:
    """Metadata by key (long arrays as `LongArray`), and the tensors."""

    metadata: dict[str, Any]
    tensors: tuple[Tensor, ...]
    file_size: int


def read_gguf(path: Path) -> GgufHeader:
    """The header of a GGUF file.

    Raises:
        UnfitFileError: another format, another version, cut short, or counts that cannot be.
    """
    file = open_plain(path)
    with file.stream as stream:
        reader = _Reader(stream, file.size)
        if reader.take(4) != _MAGIC:
            raise UnfitFileError("it is not a GGUF file")
        version = reader.number("<I")
        if version not in (2, 3):
            raise UnfitFileError(f"it is GGUF version {version}; versions 2 and 3 are read")
        num_tensors, num_keys = reader.count(), reader.count()
        metadata = {}
        for _ in range(num_keys):
            key = reader.text()
            metadata[key] = reader.value(reader.number("<I"))
        entries = [_tensor(reader) for _ in range(num_tensors)]
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    _require_whole(entries, reader.place, alignment if isinstance(alignment, int) else _ALIGNMENT, file.size)
    return GgufHeader(metadata, tuple(tensor for tensor, _ in entries), file.size)


def _require_whole(
    entries: list[tuple[Tensor, int]], header_end: int, alignment: int, file_size: int
) -> None:
    """No tensor lies past the end of the file."""
    step = max(1, alignment)
    data_start = -(-header_end // step) * step
    for tensor, offset in entries:
        elements, size = _BLOCKS.get(tensor.dtype, (1, 0))
        end = data_start + offset + math.prod(tensor.shape) // elements * size
        if end > file_size:
            raise UnfitFileError(
                f"it is cut short: {shown(tensor.name)} ends at byte {end:,} of {file_size:,}"
            )


def _tensor(reader: _Reader) -> tuple[Tensor, int]:
    """A line of the tensor table, and where the tensor's bytes begin in the data part."""
    name = reader.text()
    num_dims = reader.number("<I")
    if num_dims > _MAX_DIMS:
        raise UnfitFileError(f"its header gives {shown(name)} {num_dims} dimensions")
    # GGUF lists the fastest-moving dimension first; everywhere else here it is last.
    shape = tuple(int(reader.number("<Q")) for _ in range(num_dims))[::-1]
    kind = int(reader.number("<I"))
    offset = int(reader.number("<Q"))
    return Tensor(name, TYPES.get(kind, f"type {kind}"), shape), offset


class _Reader:
    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._size = size
        self._budget = _MAX_READ
        self.place = 0

    def take(self, count: int) -> bytes:
        self._advance(count)
        self._budget -= count
        if self._budget < 0:
            raise UnfitFileError(f"its header is longer than {_MAX_READ:,} bytes")
        data = read_some(self._stream, count)
        if len(data) < count:
            raise UnfitFileError("it became shorter while it was read")
        return data

    def skip(self, count: int) -> None:
        self._advance(count)
        self._stream.seek(count, 1)

    def _advance(self, count: int) -> None:
        if count > self._size - self.place:
            raise UnfitFileError("it is cut short within its header")
        self.place += count

    def number(self, code: str) -> Any:
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def count(self) -> int:
        value = int(self.number("<Q"))
        if value > _MAX_ENTRIES:
            raise UnfitFileError(f"its header claims {value:,} entries")
        return value

    def text(self) -> str:
        length = int(self.number("<Q"))
        if length > _MAX_STRING:
            raise UnfitFileError(f"its header holds a text of {length:,} bytes")
        return self.take(length).decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self._array()
        if kind not in _SCALARS:
            raise UnfitFileError(f"its header holds a value of unknown type {kind}")
        return self.number(_SCALARS[kind])

    def _array(self) -> list[Any] | LongArray:
        kind, length = int(self.number("<I")), int(self.number("<Q"))
        if kind == _ARRAY:
            raise UnfitFileError("its header holds an array of arrays")
        if length <= _MAX_KEPT:
            return [self.value(kind) for _ in range(length)]
        if kind in _SCALARS:
            self.skip(length * struct.calcsize(_SCALARS[kind]))
        elif kind == _STRING:
            if length > _MAX_TEXTS:
                raise UnfitFileError(f"its header holds an array of {length:,} texts")
            for _ in range(length):
                self.skip(int(self.number("<Q")))
        else:
            raise UnfitFileError(f"its header holds an array of unknown type {kind}")
        return LongArray(length)
