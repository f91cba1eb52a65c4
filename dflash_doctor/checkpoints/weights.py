"""Finds the weight files of a checkpoint folder and reads their headers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dflash_doctor.checkpoints.files import UnfitFileError, exists
from dflash_doctor.checkpoints.gguf_file import GgufHeader, read_gguf
from dflash_doctor.checkpoints.json_file import read_json_object
from dflash_doctor.checkpoints.safetensors_file import Header, read_header
from dflash_doctor.contract.pair import Problem, Tensor

INDEX_NAME = "model.safetensors.index.json"
_MAX_INDEX_BYTES = 256 * 1024 * 1024
_OTHER_FORMATS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.npz")
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
    files = sorted(folder.glob("*.safetensors"))
    if files or exists(folder / INDEX_NAME):
        weights.format = "safetensors"
        _read_safetensors(folder, files, weights)
        return weights
    ggufs = sorted(folder.glob("*.gguf"))
    if ggufs:
        return read_gguf_weights(ggufs[0])
    others = [path.name for pattern in _OTHER_FORMATS for path in folder.glob(pattern)]
    if any(name not in _NOT_WEIGHTS for name in others):
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


def _read_safetensors(folder: Path, files: list[Path], weights: Weights) -> None:
    listed = _index(folder, weights)
    wanted = sorted(set(listed.values())) if listed is not None else [path.name for path in files]
    for name in wanted:
        path = folder / name
        if Path(name).name != name:
            weights.problems.append(
                Problem(
                    severity="error",
                    file=str(folder / INDEX_NAME),
                    what="the index names a file outside the folder",
                    seen=name,
                    remedy="restore the index from the original release",
                )
            )
            continue
        if not exists(path):
            count = sum(shard == name for shard in (listed or {}).values())
            weights.problems.append(
                Problem(
                    severity="error",
                    file=str(folder / INDEX_NAME),
                    what=f"the weight file {name} is missing",
                    seen=f"the index puts {count} tensors into it",
                    remedy="download the checkpoint again",
                )
            )
            continue
        try:
            weights.headers.append(read_header(path))
        except UnfitFileError as error:
            weights.problems.append(_unreadable(path, error))
    if listed is not None:
        _compare_with_index(folder, listed, weights)


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
                file=str(file.path),
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
                file=str(folder / INDEX_NAME),
                what="tensors of the index are not in the file that it names",
                seen=f"{len(lacking)}, first {lacking[0]} (in {listed[lacking[0]]})",
                remedy="download the checkpoint again",
            )
        )


def _unreadable(path: Path, error: UnfitFileError) -> Problem:
    return Problem(
        severity="error",
        file=str(path),
        what=f"the weight file {path.name} cannot be read",
        seen=str(error),
        remedy="download the file again",
    )
