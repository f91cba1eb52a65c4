"""Reads the draft-vocabulary tables of a drafter: small tensors, so they are read whole."""

from __future__ import annotations

import sys
from array import array
from pathlib import Path

from dflash_doctor.checkpoints.files import UnfitFileError, shown
from dflash_doctor.checkpoints.safetensors_file import Header, Placed, read_tensor_bytes
from dflash_doctor.contract.pair import Problem, VocabMap

_CODES = {"I64": "q", "I32": "i", "U32": "I", "I16": "h", "U8": "B", "BOOL": "B"}
_MAX_BYTES = 16 * 1024 * 1024
"""Two million entries; the largest vocabularies have a quarter of a million."""


def read_vocab_maps(headers: list[Header]) -> tuple[tuple[VocabMap, ...], tuple[Problem, ...]]:
    """The tables `d2t` and `t2d` of a drafter, summed up, and what kept any from being read."""
    values: dict[str, array[int]] = {}
    problems = []
    for name in ("d2t", "t2d"):
        for header in headers:
            placed = header.place_of(name) or header.place_of("model." + name)
            if placed is None:
                continue
            try:
                values[name] = _numbers(header.path, placed)
            except UnfitFileError as error:
                problems.append(
                    Problem(
                        severity="error",
                        file=shown(header.path, 4096),
                        what=f"the table {name} cannot be read",
                        seen=str(error),
                        remedy="export the drafter again",
                        field=name,
                    )
                )
            break
    return _summaries(values), tuple(problems)


def _numbers(path: Path, placed: Placed) -> array[int]:
    tensor = placed.tensor
    code = _CODES.get(tensor.dtype)
    if code is None or len(tensor.shape) != 1:
        raise UnfitFileError(f"it is {tensor.dtype} {list(tensor.shape)}, not one row of whole numbers")
    numbers: array[int] = array(code)
    numbers.frombytes(read_tensor_bytes(path, placed, max_bytes=_MAX_BYTES))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _summaries(values: dict[str, array[int]]) -> tuple[VocabMap, ...]:
    maps = []
    said: set[int] | None = None
    if "d2t" in values:
        offsets = values["d2t"]
        targets = [index + offset for index, offset in enumerate(offsets)]
        said = set(targets)
        maps.append(
            VocabMap(
                name="d2t",
                length=len(offsets),
                all_zero=not any(offsets),
                lowest_target=min(targets, default=None),
                highest_target=max(targets, default=None),
                num_distinct=len(said),
            )
        )
    if "t2d" in values:
        flags = values["t2d"]
        sayable = {index for index, flag in enumerate(flags) if flag}
        maps.append(
            VocabMap(
                name="t2d",
                length=len(flags),
                all_zero=not sayable,
                num_true=len(sayable),
                agrees_with_other=None if said is None else said == sayable,
            )
        )
    return tuple(maps)
