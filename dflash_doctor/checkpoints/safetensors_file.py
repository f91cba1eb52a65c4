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

from dflash_doctor.checkpoints.files import UnfitFileError, open_plain, read_some, shown
from dflash_doctor.contract.pair import Tensor

MAX_HEADER_BYTES = 100 * 1024 * 1024
"""The format's own limit."""
_LENGTH = struct.Struct("<Q")
_MAX_TENSORS = 200_000
"""The largest mixtures of experts have some hundred thousand, spread over their files."""
_MAX_DIMS = 16

BITS = {
    "F64": 64, "I64": 64, "U64": 64, "C64": 64, "F32": 32, "I32": 32, "U32": 32, "BF16": 16, "F16": 16,
    "I16": 16, "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I8": 8, "U8": 8, "BOOL": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
"""Bits of one element, by the format's names of the types."""


_NOWHERE = (-1, -1)


class _Entry(msgspec.Struct, frozen=True):
    """An entry as it stands; the defaults mark what is absent, as in the entry `__metadata__`."""

    dtype: str = ""
    shape: tuple[int, ...] = ()
    data_offsets: tuple[int, int] = _NOWHERE


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


_LFS_POINTER = b"version https://git-lfs"


def read_header(path: Path) -> Header:
    """The header of a file.

    Raises:
        UnfitFileError: not a safetensors file, cut short, or a header that contradicts itself.
    """
    file = open_plain(path)
    with file.stream as stream:
        prefix = read_some(stream, _LENGTH.size)
        if len(prefix) < _LENGTH.size:
            raise UnfitFileError(f"it has {len(prefix)} bytes, too few for a safetensors file")
        if prefix == _LFS_POINTER[: _LENGTH.size]:
            raise UnfitFileError(
                "it is a Git LFS pointer: the file itself was not downloaded",
                remedy="fetch it with: git lfs pull",
            )
        (length,) = _LENGTH.unpack(prefix)
        if length > MAX_HEADER_BYTES:
            raise UnfitFileError(
                f"its header claims {length:,} bytes; the format allows {MAX_HEADER_BYTES:,}"
            )
        if length > file.size - _LENGTH.size:
            raise UnfitFileError(f"its header claims {length:,} bytes and the file has {file.size:,}")
        raw = read_some(stream, length)
    data_start = _LENGTH.size + length
    return Header(path, _entries(raw, data_start, file.size), raw, file.size)


def read_tensor_bytes(path: Path, placed: Placed, *, max_bytes: int) -> bytes:
    """The bytes of one small tensor.

    Raises:
        UnfitFileError: larger than `max_bytes`, or the file is cut short.
    """
    size = placed.end - placed.start
    if size > max_bytes:
        raise UnfitFileError(
            f"{shown(placed.tensor.name)} has {size:,} bytes; at most {max_bytes:,} are read"
        )
    file = open_plain(path)
    with file.stream as stream:
        stream.seek(placed.start)
        data = read_some(stream, size)
    if len(data) < size:
        raise UnfitFileError(f"{shown(placed.tensor.name)} is cut short")
    return data


def _entries(raw: bytes, data_start: int, file_size: int) -> tuple[Placed, ...]:
    try:
        entries = _DECODER.decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UnfitFileError(f"its header is not what the format says: {shown(str(error))}") from error
    entries.pop("__metadata__", None)
    if len(entries) > _MAX_TENSORS:
        raise UnfitFileError(f"its header lists {len(entries):,} tensors; at most {_MAX_TENSORS:,} are read")
    placed = []
    for name, entry in entries.items():
        if not entry.dtype or entry.data_offsets == _NOWHERE:
            raise UnfitFileError(
                f"its header is not what the format says: {shown(name)} lacks its type or its place"
            )
        if (fault := _fault(entry)) is not None:
            raise UnfitFileError(f"its header gives {shown(name)} {fault}")
        begin, end = entry.data_offsets
        placed.append(Placed(Tensor(name, entry.dtype, entry.shape), data_start + begin, data_start + end))
    _require_gapless(placed, data_start, file_size)
    return tuple(placed)


def _fault(entry: _Entry) -> str | None:
    """In what place, shape and type of one tensor contradict each other; `None` where they do not."""
    begin, end = entry.data_offsets
    if len(entry.shape) > _MAX_DIMS:
        return f"{len(entry.shape):,} dimensions"
    if not 0 <= begin <= end or (entry.shape and min(entry.shape) < 0):
        return f"the place {begin} to {end} and the shape {shown(str(list(entry.shape)))}"
    bits = BITS.get(entry.dtype)
    if bits is None:
        return None
    # Whole numbers throughout: a float would overflow, or round two sizes to one.
    size = -(-math.prod(entry.shape) * bits // 8)
    if size == end - begin:
        return None
    return (
        f"{shown(f'{end - begin:,}')} bytes; {entry.dtype} {shown(str(list(entry.shape)))} needs "
        f"{shown(f'{size:,}')}"
    )


def _require_gapless(placed: list[Placed], data_start: int, file_size: int) -> None:
    """The tensors fill the rest of the file, one behind the other; the format allows nothing else."""
    before: Placed | None = None
    place = data_start
    for item in sorted(placed, key=lambda entry: (entry.start, entry.end)):
        if item.start != place:
            names = _called(before), _called(item)
            if item.start < place:
                raise UnfitFileError(f"its header lets {names[0]} and {names[1]} overlap")
            gap = f"{item.start - place:,} bytes between {names[0]} and {names[1]}"
            raise UnfitFileError(f"its header leaves {gap}")
        before, place = item, item.end
    if place > file_size:
        raise UnfitFileError(f"it is cut short: {_called(before)} ends at byte {place:,} of {file_size:,}")
    if place < file_size:
        raise UnfitFileError(f"it has {file_size - place:,} bytes behind its last tensor")


def _called(item: Placed | None) -> str:
    return "the header" if item is None else shown(item.tensor.name)
