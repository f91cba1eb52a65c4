"""Finds the weight files of a checkpoint folder and reads their headers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from dflash_doctor.checkpoints.files import UnfitFileError, exists, names_in, shown
from dflash_doctor.checkpoints.gguf_file import GgufHeader, read_gguf
from dflash_doctor.checkpoints.json_file import read_json_object
from dflash_doctor.checkpoints.safetensors_file import BITS, Header, read_header
from dflash_doctor.contract.pair import Problem, Tensor

INDEX_NAME = "model.safetensors.index.json"
_MAX_INDEX_BYTES = 64 * 1024 * 1024
"""Of a target with a hundred thousand tensors some ten megabytes."""
_MAX_REPORTED = 10
"""Files of one index that get a problem each."""
_OTHER_FORMATS = (".bin", ".pt", ".pth", ".ckpt", ".npz")
_NOT_WEIGHTS = ("mask_embedding.pt", "training_args.bin")


@dataclass
class Weights:
    """Headers of a folder's weight files."""

    format: str | None = None
    headers: list[Header] = field(default_factory=list)
    gguf: GgufHeader | None = None
    gguf_file: Path | None = None
    problems: list[Problem] = field(default_factory=list)

    @property
    def tensors(self) -> tuple[Tensor, ...] | None:
        """Every tensor of every file; `None` where no header could be read."""
        if self.gguf is not None:
            return self.gguf.tensors
        if not self.headers:
            return None
        return tuple(item.tensor for header in self.headers for item in header.placed)

    @property
    def num_bytes(self) -> int:
        """Size of the files whose headers could be read."""
        return sum(header.file_size for header in self.headers) + (self.gguf.file_size if self.gguf else 0)


def read_weights(folder: Path) -> Weights:
    """The weight files of a folder and everything that is wrong with them; never raises."""
    weights = Weights()
    try:
        names = names_in(folder)
    except UnfitFileError as error:
        weights.problems.append(
            Problem(
                severity="error",
                file=shown(folder, 4096),
                what="the folder cannot be listed, so its weight files are not known",
                seen=str(error),
                remedy="give yourself read permission on the folder",
            )
        )
        names = []
    files = [name for name in names if name.endswith(".safetensors")]
    if files or exists(folder / INDEX_NAME):
        weights.format = "safetensors"
        _read_safetensors(folder, files, weights)
        return weights
    ggufs = [name for name in names if name.endswith(".gguf")]
    if ggufs:
        return read_gguf_weights(folder / ggufs[0])
    if any(name.endswith(_OTHER_FORMATS) and name not in _NOT_WEIGHTS for name in names):
        weights.format = "other"
    return weights


def read_gguf_weights(path: Path) -> Weights:
    """A GGUF file and everything that is wrong with it; never raises."""
    weights = Weights(format="gguf", gguf_file=path)
    try:
        weights.gguf = read_gguf(path)
    except UnfitFileError as error:
        weights.problems.append(_unreadable(path, error))
    return weights


def _read_safetensors(folder: Path, files: list[str], weights: Weights) -> None:
    listed = _index(folder, weights)
    counts = Counter(listed.values()) if listed is not None else Counter(files)
    missing, outside = [], []
    for name in sorted(counts):
        path = folder / name
        if Path(name).name != name:
            outside.append(name)
        elif not exists(path):
            missing.append(name)
        else:
            _read_shard(path, weights)
    _report_files(folder, missing, outside, counts, weights)
    if listed is not None:
        _compare_with_index(folder, listed, weights)


def _read_shard(path: Path, weights: Weights) -> None:
    try:
        header = read_header(path)
    except UnfitFileError as error:
        weights.problems.append(_unreadable(path, error))
        return
    weights.headers.append(header)
    odd = [item.tensor for item in header.placed if item.tensor.dtype not in BITS]
    if odd:
        weights.problems.append(
            Problem(
                severity="warning",
                file=shown(path, 4096),
                what=f"the type {shown(odd[0].dtype, 40)} is none of the safetensors format",
                seen=f"{len(odd)} tensors, first {shown(odd[0].name)}",
                remedy="see whether the engine's safetensors release reads it, else export the file again",
            )
        )


def _report_files(
    folder: Path, missing: list[str], outside: list[str], counts: Counter[str], weights: Weights
) -> None:
    """What the index names and the folder does not hold; of very many the first few and their number."""
    index = shown(folder / INDEX_NAME, 4096)
    for name in outside[:_MAX_REPORTED]:
        weights.problems.append(
            Problem(
                severity="error",
                file=index,
                what="the index names a file outside the folder",
                seen=shown(name) + _and_more(outside),
                remedy="restore the index from the original release",
            )
        )
    for name in missing[:_MAX_REPORTED]:
        weights.problems.append(
            Problem(
                severity="error",
                file=index,
                what=f"the weight file {shown(name)} is missing",
                seen=f"the index puts {counts[name]} tensors into it" + _and_more(missing),
                remedy="download the checkpoint again",
            )
        )


def _and_more(names: list[str]) -> str:
    return f"; {len(names):,} such files in all" if len(names) > _MAX_REPORTED else ""


def _index(folder: Path, weights: Weights) -> dict[str, str] | None:
    """Tensor name -> file, as the index says; `None` where there is no usable index."""
    file = read_json_object(folder / INDEX_NAME, max_bytes=_MAX_INDEX_BYTES, required=False, located=False)
    weights.problems.extend(file.problems)
    if file.value is None:
        return None
    table = file.value.get("weight_map")
    if not isinstance(table, dict) or not all(isinstance(item, str) for item in table.values()):
        weights.problems.append(
            Problem(
                severity="error",
                file=shown(file.path, 4096),
                what="the index has no weight_map",
                seen=f"weight_map is a JSON {type(table).__name__}" if table is not None else "no such key",
                remedy="restore the index from the original release",
                field="weight_map",
            )
        )
        return None
    return table


def _compare_with_index(folder: Path, listed: dict[str, str], weights: Weights) -> None:
    """Tensors that the index promises and the files lack."""
    held = {header.path.name: {item.tensor.name for item in header.placed} for header in weights.headers}
    lacking = [name for name, shard in listed.items() if shard in held and name not in held[shard]]
    if lacking:
        weights.problems.append(
            Problem(
                severity="error",
                file=shown(folder / INDEX_NAME, 4096),
                what="tensors of the index are not in the file that it names",
                seen=f"{len(lacking)}, first {shown(lacking[0])} (in {shown(listed[lacking[0]])})",
                remedy="download the checkpoint again",
            )
        )


def _unreadable(path: Path, error: UnfitFileError) -> Problem:
    return Problem(
        severity="error",
        file=shown(path, 4096),
        what=f"the weight file {shown(path.name)} cannot be read",
        seen=str(error),
        remedy=error.remedy or "download the file again",
    )
