"""Writes a pair of checkpoint folders for static checks: real configs, true headers, no weights."""

from __future__ import annotations

import copy
import json
import math
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dflash_doctor.checkpoints.safetensors_file import BITS
from dflash_doctor.inspection import InspectionResult, inspect
from dflash_doctor.settings import Settings

TARGET: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000.0,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
    "eos_token_id": 151645,
}
DRAFT: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000.0,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
    "dtype": "bfloat16",
    "block_size": 16,
    "num_target_layers": 36,
    "layer_types": ["full_attention"] * 5,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
}
"""After z-lab's drafter for Qwen3-8B."""
SPECULATORS_DRAFT: dict[str, Any] = {
    "architectures": ["DFlashSpeculator"],
    "speculators_model_type": "dflash",
    "speculators_config": {
        "algorithm": "dflash",
        "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 15}],
        "verifier": {"name_or_path": "Qwen/target", "architectures": ["Qwen3ForCausalLM"]},
    },
    "block_size": 16,
    "mask_token_id": 151669,
    "draft_vocab_size": 151936,
    "aux_hidden_state_layer_ids": [2, 10, 18, 26, 34],
    "sliding_window_non_causal": True,
    "transformer_layer_config": {
        name: DRAFT[name]
        for name in (
            "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
            "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings", "rope_theta",
            "rope_parameters", "dtype", "layer_types",
        )
    },
}  # fmt: skip

Shapes = dict[str, tuple[str, tuple[int, ...]]]


def layer_tensors(index: int, config: dict[str, Any] = DRAFT) -> Shapes:
    """The tensors of one drafter layer."""
    hidden, inner, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    shapes: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "self_attn.q_norm": (size,),
        "self_attn.k_norm": (size,),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
    }
    return {f"layers.{index}.{name}.weight": ("BF16", shape) for name, shape in shapes.items()}


def draft_tensors(num_taps: int = 5) -> Shapes:
    """The tensors of the drafter above."""
    hidden = DRAFT["hidden_size"]
    shapes: Shapes = {
        "fc.weight": ("BF16", (hidden, num_taps * hidden)),
        "hidden_norm.weight": ("BF16", (hidden,)),
        "norm.weight": ("BF16", (hidden,)),
    }
    for index in range(DRAFT["num_hidden_layers"]):
        shapes |= layer_tensors(index)
    return shapes


def target_tensors() -> Shapes:
    """The tensors of the target that a pair depends on."""
    rows = (TARGET["vocab_size"], TARGET["hidden_size"])
    return {"model.embed_tokens.weight": ("BF16", rows), "lm_head.weight": ("BF16", rows)}


@dataclass
class PairFiles:
    """A healthy pair; tests change one thing and write it."""

    target: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(TARGET))
    draft: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(DRAFT))
    target_tensors: Shapes = field(default_factory=target_tensors)
    draft_tensors: Shapes = field(default_factory=draft_tensors)
    draft_data: dict[str, bytes] = field(default_factory=dict)
    """Contents of small tensors."""
    side_files: dict[str, bytes] = field(default_factory=dict)
    """Further files of the drafter's folder."""
    settings: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    names: tuple[str, str] = ("target", "draft")

    @property
    def dflash(self) -> dict[str, Any]:
        """The drafter's nested config."""
        return self.draft["dflash_config"]

    def arg(self, *items: str) -> None:
        """Add engine arguments."""
        self.settings["engine_arg"] = (*self.settings.get("engine_arg", ()), *items)

    def write(self, folder: Path) -> Settings:
        """Write both folders; the settings that name them."""
        target, draft = folder / self.names[0], folder / self.names[1]
        for path, config, tensors, data in (
            (target, self.target, self.target_tensors, {}),
            (draft, self.draft, self.draft_tensors, self.draft_data),
        ):
            path.mkdir(parents=True, exist_ok=True)
            (path / "config.json").write_text(json.dumps(config, indent=2))
            write_header(path / "model.safetensors", tensors, data)
        for name, content in self.side_files.items():
            (draft / name).write_bytes(content)
        return Settings(target=str(target), draft=str(draft), **self.settings)

    def inspect(self, folder: Path) -> InspectionResult:
        """Write the pair and judge it."""
        return inspect(self.write(folder), environ=self.variables)


def write_header(path: Path, tensors: Shapes, data: dict[str, bytes]) -> None:
    """A safetensors file with a true header and a sparse body; `data` fills small tensors."""
    header: dict[str, Any] = {}
    end = 0
    for name, (dtype, shape) in tensors.items():
        size = math.prod(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        file.truncate(8 + len(raw) + end)
        for name, content in data.items():
            if name not in header:
                continue
            file.seek(8 + len(raw) + header[name]["data_offsets"][0])
            file.write(content)


def numbers(values: list[int]) -> bytes:
    """A row of 64-bit whole numbers, as a table holds them."""
    return struct.pack(f"<{len(values)}q", *values)


def speculators_pair() -> PairFiles:
    """The same drafter as speculators would have written it."""
    return PairFiles(draft=copy.deepcopy(SPECULATORS_DRAFT))


def reduced_vocabulary(size: int = 32000) -> PairFiles:
    """A speculators drafter with a reduced vocabulary, its head and its table."""
    pair = speculators_pair()
    pair.draft["draft_vocab_size"] = size
    pair.draft_tensors |= {
        "lm_head.weight": ("BF16", (size, 4096)),
        "d2t": ("I64", (size,)),
        "t2d": ("BOOL", (151936,)),
    }
    step = 4
    pair.draft_data = {
        "d2t": numbers([index * (step - 1) for index in range(size)]),
        "t2d": bytes(index % step == 0 and index < step * size for index in range(151936)),
    }
    return pair
