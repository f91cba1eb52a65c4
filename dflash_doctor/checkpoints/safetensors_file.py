"""Reads the header of a safetensors file: names, types, shapes, places. Weights are not touched.

Format: 8 bytes little-endian length, that many bytes of JSON, then the data
(huggingface/safetensors, README, "Format").
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dflash_doctor.checkpoints.files import UnfitFileError, open_plain
from dflash_doctor.contract.pair import Tensor

MAX_HEADER_BYTES = 100 * 1024 * 1024
"""The format's own limit."""
_LENGTH = struct.Struct("<Q")

BITS = {
    "F64": 64, "I64": 64, "U64": 64, "C64": 64, "F32": 32, "I32": 32, "U32": 32, "BF16": 16, "F16": 16,
    "I16": 16, "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I8": 8, "U8": 8, "BOOL": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
"""Bits of one element, by the format's names of the types."""


class _Entry(msgspec.Struct, frozen=True):
    """An entry as it stands; the defaults mark what is absent, as in the entry `__metadata__`."""

    dtype: str = ""
    shape: tuple[int, ...] = ()
    data_offsets: tuple[int, int] = (-1, -1)


class Placed(msgspec.Struct, frozen=True):
    """A tensor and where its bytes lie in the file."""

    tensor: Tensor
    start: int
    end: int


_DECODER = msgspec.json.Decoder(dict[str, _Entry])


@dataclass(frozen=True)
class Header:
    """What a file's header says."""

    path: Path
    placed: tuple[Placed, ...]
    raw: bytes
    file_size: int

    def place_of(self, name: str) -> Placed | None:
        """The entry of the tensor called so."""
        return next((item for item in self.placed if item.tensor.name == name), None)


def read_header(path: Path) -> Header:
    """The header of a file.

    Raises:
        UnfitFileError: not a safetensors file, cut short, or a header that contradicts itself.
    """
    file = open_plain(path)
    with file.stream as stream:
        prefix = stream.read(_LENGTH.size)
        if len(prefix) < _LENGTH.size:
            raise UnfitFileError(f"it has {len(prefix)} bytes, too few for a safetensors file")
        (length,) = _LENGTH.unpack(prefix)
        if length > MAX_HEADER_BYTES:
            raise UnfitFileError(
                f"its header claims {length:,} bytes; the format allows {MAX_HEADER_BYTES:,}"
            )
        if length > file.size - _LENGTH.size:
            raise UnfitFileError(f"its header claims {length:,} bytes and the file has {file.size:,}")
        raw = stream.read(length)
    data_start = _LENGTH.size + length
    return Header(path, _entries(raw, data_start, file.size), raw, file.size)


def read_tensor_bytes(path: Path, placed: Placed, *, max_bytes: int) -> bytes:
    """The bytes of one small tensor.

    Raises:
        UnfitFileError: larger than `max_bytes`, or the file is cut short.
    """
    size = placed.end - placed.start
    if size > max_bytes:
        raise UnfitFileError(f"{placed.tensor.name} has {size:,} bytes; at most {max_bytes:,} are read")
    file = open_plain(path)
    with file.stream as stream:
        stream.seek(placed.start)
        data = stream.read(size)
    if len(data) < size:
        raise UnfitFileError(f"{placed.tensor.name} is cut short")
    return data


def _entries(raw: bytes, data_start: int, file_size: int) -> tuple[Placed, ...]:
    try:
        entries = _DECODER.decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UnfitFileError(f"its header is not what the format says: {error}") from error
    entries.pop("__metadata__", None)
    placed = []
    for name, entry in entries.items():
        begin, end = entry.data_offsets
        if not 0 <= begin <= end or (entry.shape and min(entry.shape) < 0):
            raise UnfitFileError(f"its header puts {name} at {begin} to {end} with shape {list(entry.shape)}")
        if entry.dtype in BITS:
            size = math.ceil(math.prod(entry.shape) * BITS[entry.dtype] / 8)
            if size != end - begin:
                raise UnfitFileError(
                    f"its header gives {name} {end - begin:,} bytes; {entry.dtype} {list(entry.shape)} "
                    f"needs {size:,}"
                )
        placed.append(Placed(Tensor(name, entry.dtype, entry.shape), data_start + begin, data_start + end))
    _require_apart(placed, file_size)
    return tuple(placed)


def _require_apart(placed: list[Placed], file_size: int) -> None:
    """No two tensors share bytes, and none lies past the end of the file."""
    before: Placed | None = None
    for item in sorted(placed, key=lambda entry: (entry.start, entry.end)):
        if before is not None and item.start < before.end and item.end > item.start:
            raise UnfitFileError(f"its header lets {before.tensor.name} and {item.tensor.name} overlap")
        before = item
    if before is not None and before.end > file_size:
        raise UnfitFileError(
            f"it is cut short: {before.tensor.name} ends at byte {before.end:,} of {file_size:,}"
        )
