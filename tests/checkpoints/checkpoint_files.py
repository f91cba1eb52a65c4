"""Writes checkpoint folders whose weights are holes: real headers, no data, nothing of size on the disk."""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dflash_doctor.checkpoints.json_file import JsonFile
from dflash_doctor.checkpoints.json_lines import key_lines
from dflash_doctor.checkpoints.safetensors_file import BITS

Tensors = Mapping[str, tuple[str, Sequence[int]]]
"""Name -> type and shape."""
INDEX_NAME = "model.safetensors.index.json"
GGUF_TYPES = {
    "F32": (0, 1, 4),
    "F16": (1, 1, 2),
    "Q8_0": (8, 32, 34),
    "Q4_K": (12, 256, 144),
    "BF16": (30, 1, 2),
}
"""Number, elements in a block, bytes of a block."""


def num_bytes(dtype: str, shape: Sequence[int]) -> int:
    count = 1
    for side in shape:
        count *= side
    return -(-count * BITS[dtype] // 8)


def safetensors_header(tensors: Tensors) -> tuple[bytes, dict[str, int], int]:
    """The header with its length in front, where each tensor begins in the data part, and its size."""
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    starts: dict[str, int] = {}
    place = 0
    for name, (dtype, shape) in tensors.items():
        end = place + num_bytes(dtype, shape)
        starts[name] = place
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [place, end]}
        place = end
    text = json.dumps(table).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, starts, place


def write_safetensors(
    path: Path, tensors: Tensors, data: Mapping[str, bytes] | None = None, *, sparse: bool = True
) -> Path:
    """A valid file; tensors without `data` are a hole (zeros, where not `sparse`)."""
    header, starts, size = safetensors_header(tensors)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        stream.write(header)
        if not sparse:
            stream.write(bytes(size))
        for name, content in (data or {}).items():
            assert len(content) == num_bytes(*tensors[name])
            stream.seek(len(header) + starts[name])
            stream.write(content)
        stream.truncate(len(header) + size)
    return path


def write_sharded(
    folder: Path, tensors: Tensors, num_shards: int, data: Mapping[str, bytes] | None = None
) -> None:
    """The tensors dealt out over several files, and their index."""
    names = list(tensors)
    weight_map = {}
    for number in range(num_shards):
        file = f"model-{number + 1:05}-of-{num_shards:05}.safetensors"
        own = {name: tensors[name] for name in names[number::num_shards]}
        write_safetensors(folder / file, own, {k: v for k, v in (data or {}).items() if k in own})
        weight_map |= dict.fromkeys(own, file)
    write_json(folder / INDEX_NAME, {"metadata": {"total_size": 1}, "weight_map": weight_map})


def write_json(path: Path, value: Any) -> Path:
    """As Transformers writes configs: one key a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    return path


def as_file(config: Mapping[str, Any]) -> JsonFile:
    """The config as if it had been read from a file."""
    text = json.dumps(config, indent=2)
    return JsonFile(Path("config.json"), json.loads(text), key_lines(text), text=text)


def write_checkpoint(
    folder: Path, config: Mapping[str, Any], tensors: Tensors, data: Mapping[str, bytes] | None = None
) -> Path:
    """A config and one weight file."""
    write_json(folder / "config.json", config)
    write_safetensors(folder / "model.safetensors", tensors, data)
    return folder


def int64(numbers: Sequence[int]) -> bytes:
    return array("q", numbers).tobytes()


def vocab_maps(
    draft_vocab: int, target_vocab: int
) -> tuple[dict[str, tuple[str, list[int]]], dict[str, bytes]]:
    """`d2t` and `t2d` of a drafter that says every `n`th token of the target, and their data."""
    step = target_vocab // draft_vocab
    sayable = [index * step for index in range(draft_vocab)]
    flags = bytearray(target_vocab)
    for item in sayable:
        flags[item] = 1
    offsets = [target - index for index, target in enumerate(sayable)]
    shapes = {"d2t": ("I64", [draft_vocab]), "t2d": ("BOOL", [target_vocab])}
    return shapes, {"d2t": int64(offsets), "t2d": bytes(flags)}


def gguf_bytes(metadata: Mapping[str, Any], tensors: Tensors, *, version: int = 3) -> tuple[bytes, int]:
    """The header of a GGUF file, and the size of the whole file."""
    parts = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(metadata))]
    for key, value in metadata.items():
        parts += [_text(key), _typed(value)]
    place = 0
    for name, (dtype, shape) in tensors.items():
        number, elements, size = GGUF_TYPES[dtype]
        sides = [*shape][::-1]
        parts += [_text(name), struct.pack("<I", len(sides)), struct.pack(f"<{len(sides)}Q", *sides)]
        parts.append(struct.pack("<IQ", number, place))
        count = 1
        for side in sides:
            count *= side
        place += -(-(count // elements * size) // 32) * 32
    header = b"".join(parts)
    return header, -(-len(header) // 32) * 32 + place


def write_gguf(path: Path, metadata: Mapping[str, Any], tensors: Tensors) -> Path:
    """A valid GGUF file whose data part is a hole."""
    header, size = gguf_bytes(metadata, tensors)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        stream.write(header)
        stream.truncate(size)
    return path


def _text(value: str) -> bytes:
    content = value.encode()
    return struct.pack("<Q", len(content)) + content


def _typed(value: Any) -> bytes:
    kind, content = _value(value)
    return struct.pack("<I", kind) + content


def _value(value: Any) -> tuple[int, bytes]:
    """GGUF's number for the type, and the bytes."""
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return (4, struct.pack("<I", value)) if 0 <= value < 2**32 else (11, struct.pack("<q", value))
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, _text(value)
    items = [_value(item) for item in value]
    kind = items[0][0] if items else 4
    return 9, struct.pack("<IQ", kind, len(items)) + b"".join(content for _, content in items)
