"""Writes a small DFlash2 drafter for the tiny target: the bundled drafter with additions drawn at random."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from dflash_doctor.bundled import bundled_fixtures

PAIR = bundled_fixtures() / "tiny_pair"
SIZES = {"conv_kernel_size": 3, "conv_group_size": 16, "selector_rank": 32, "selector_top_k": 16}


def write_dflash2(folder: Path, *, seed: int = 0, noise: float = 1.0, **changes: Any) -> Path:
    """A checkpoint in z-lab's layout.

    Args:
        folder: made if need be.
        seed: of what is drawn.
        noise: 0 leaves the arithmetic of the bundled drafter: convolutions that do nothing, codes at zero.
        changes: top-level fields of config.json, and the four of `SIZES`.
    """
    import torch
    from safetensors.torch import load_file, save_file

    sizes = {name: changes.pop(name, value) for name, value in SIZES.items()}
    config = json.loads((PAIR / "draft" / "config.json").read_text())
    config |= {"architectures": ["DFlash2DraftModel"], "is_causal": False} | changes
    config["dflash_config"] |= sizes
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    taps, groups = sizes["conv_kernel_size"], hidden // sizes["conv_group_size"]
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int, spread: float) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * spread * noise

    tensors = load_file(PAIR / "draft" / "model.safetensors")
    dtype = tensors["norm.weight"].dtype
    for index in range(config["num_hidden_layers"]):
        for name in ("attention_conv", "mlp_conv"):
            kernel = drawn(2, taps, hidden, spread=0.1)
            kernel[:, 0] += 1.0
            tensors[f"layers.{index}.{name}.base_kernel"] = kernel
            projection = drawn(2 * taps * groups, hidden, spread=0.01)
            tensors[f"layers.{index}.{name}.kernel_projection.weight"] = projection
    rank = sizes["selector_rank"]
    tensors["candidate_selector.predecessor_codebook"] = drawn(vocab, rank, spread=0.5)
    tensors["candidate_selector.successor_codebook"] = drawn(vocab, rank, spread=0.5)
    tensors["candidate_selector.hidden_projection.weight"] = drawn(rank, hidden, spread=0.1)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {name: value.to(dtype).contiguous() for name, value in tensors.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_dflash2_pair(folder: Path, **changes: Any) -> Path:
    """The tiny target, its prompts, and a DFlash2 drafter from `write_dflash2`."""
    shutil.copytree(PAIR / "target", folder / "target")
    shutil.copy(PAIR / "prompts.jsonl", folder / "prompts.jsonl")
    write_dflash2(folder / "draft", **changes)
    return folder
