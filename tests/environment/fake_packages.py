"""Folders that look like site-packages: metadata, files, and packages that misbehave when imported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def install(
    site: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    direct_url: dict[str, Any] | None = None,
    files: dict[str, str] | None = None,
    description: str = "",
) -> Path:
    """Write a package's metadata (and files) as an installer would; gives the metadata folder."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {line}" for line in requires]
    (folder / "METADATA").write_text("\n".join(lines) + "\n\n" + description)
    (folder / "RECORD").write_text("")
    if direct_url is not None:
        (folder / "direct_url.json").write_text(json.dumps(direct_url))
    for path, text in (files or {}).items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    return folder


VLLM_REGISTRY = """
import torch.nn as nn

_TEXT_GENERATION_MODELS = {
    # [Decoder-only]
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
    "Qwen3ForCausalLM": ("qwen3", "Qwen3ForCausalLM"),
}
_EMBEDDING_MODELS = {
    **{k: (mod, arch) for k, (mod, arch) in _TEXT_GENERATION_MODELS.items() if arch == "LlamaForCausalLM"},
    "BertModel": ("bert", "BertEmbeddingModel"),
}
_SPECULATIVE_DECODING_MODELS = {
    "DFlashDraftModel": ("qwen3_dflash", "DFlashQwen3ForCausalLM"),
    "DFlash2DraftModel": (
        "qwen3_dflash2",
        "DFlash2Qwen3ForCausalLM",
    ),
}

_VLLM_MODELS = {
    **_TEXT_GENERATION_MODELS,
    **_EMBEDDING_MODELS,
    **_SPECULATIVE_DECODING_MODELS,
}


def broken_python_below(:
"""

VLLM_SPECULATIVE = """
from typing import Any, Literal

MTPModelTypes = Literal["deepseek_mtp", "mtp"]
DFlashModelTypes = Literal["dflash"]
EagleModelTypes = Literal[
    "eagle", "eagle3", MTPModelTypes, DFlashModelTypes
]
SpeculativeMethod = Literal[
    "ngram",
    EagleModelTypes,
]
"""

VLLM_FILES = {
    "vllm/model_executor/models/registry.py": VLLM_REGISTRY,
    "vllm/config/speculative.py": VLLM_SPECULATIVE,
}

SGLANG_FILES = {
    "sglang/srt/speculative/spec_info.py": """
from enum import Enum, auto


class SpeculativeAlgorithm(Enum):
    '''Builtin.

    Text with = signs.
    '''

    DFLASH = auto()
    EAGLE3 = auto()
    NONE = auto()

    @classmethod
    def from_string(cls, name):
        UPPER = name.upper()
        return cls[UPPER]


class Other:
    FALSE_FRIEND = 1
""",
    "sglang/srt/models/dflash.py": "EntryClass = [\n    DFlashDraftModel,\n    DFlash2DraftModel,\n]\n",
    "sglang/srt/models/llama.py": "EntryClass = LlamaForCausalLM\n",
    "sglang/srt/models/none.py": "x = 1\n",
}
