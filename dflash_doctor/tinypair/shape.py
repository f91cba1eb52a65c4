"""The shape of a tiny pair and the length of its training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class PairShape:
    """Sizes of target and drafter; the defaults are those of the bundled pair.

    `head_dim` must be one that the CPU engine's attention takes (32, 64, 80, 96, 112, 128, ...).
    """

    vocab_size: int = 1024
    hidden_size: int = 128
    intermediate_size: int = 384
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 32
    rope_theta: float = 1e4
    num_target_layers: int = 6
    num_draft_layers: int = 2
    block_size: int = 8
    target_layer_ids: tuple[int, ...] = (1, 3, 4)
    mask_token_id: int = 3
    draft_window: int | None = None
    """Keys a drafter's query sees, by distance, in every layer; `None`: all of them.

    One window for all layers: an engine's older runner serves no drafter that mixes them.
    """
    draft_causal: bool = False
    """Whether a slot of the block sees only those before it."""

    def target_config(self) -> dict[str, Any]:
        """config.json of the target."""
        return {
            "architectures": ["Qwen3ForCausalLM"],
            **self._decoder(self.num_target_layers),
        }

    def draft_config(self) -> dict[str, Any]:
        """config.json of the drafter, z-lab layout."""
        return {
            "architectures": ["DFlashDraftModel"],
            **self._decoder(self.num_draft_layers),
            **self._draft_attention(),
            "block_size": self.block_size,
            "num_target_layers": self.num_target_layers,
            "dflash_config": {
                "mask_token_id": self.mask_token_id,
                "target_layer_ids": list(self.target_layer_ids),
            },
        }

    def _draft_attention(self) -> dict[str, Any]:
        """What differs from a plain decoder's attention; empty where nothing does."""
        if self.draft_window is None and not self.draft_causal:
            return {}
        # Named even where it is false: readers take a drafter with windows for a causal one otherwise.
        changed: dict[str, Any] = {"is_causal": self.draft_causal}
        if self.draft_window is not None:
            changed |= {
                # Without it Transformers drops the window.
                "use_sliding_window": True,
                "sliding_window": self.draft_window,
                "layer_types": ["sliding_attention"] * self.num_draft_layers,
            }
        return changed

    def _decoder(self, num_layers: int) -> dict[str, Any]:
        return {
            "model_type": "qwen3",
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": num_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": 2048,
            "rms_norm_eps": 1e-6,
            # Both spellings: readers of either generation of Transformers find the trained value.
            "rope_theta": self.rope_theta,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
            "attention_bias": False,
            "attention_dropout": 0.0,
            "tie_word_embeddings": False,
            "use_cache": True,
            "bos_token_id": None,
            "eos_token_id": 2,
            "pad_token_id": 0,
            "initializer_range": 0.02,
            "torch_dtype": "bfloat16",
            "dtype": "bfloat16",
            "use_sliding_window": False,
            "sliding_window": None,
            "layer_types": ["full_attention"] * num_layers,
        }


SHAPES: Mapping[str, PairShape] = {
    "plain": PairShape(),
    "windowed": PairShape(
        vocab_size=768,
        hidden_size=96,
        intermediate_size=288,
        num_attention_heads=3,
        num_key_value_heads=1,
        rope_theta=5e4,
        num_target_layers=5,
        num_draft_layers=3,
        block_size=6,
        target_layer_ids=(0, 2, 3),
        draft_window=24,
    ),
}
"""Shapes by name: those of the bundled pairs."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How long to train; `scaled` makes a short one for tests."""

    target_steps: int = 2400
    target_batch: int = 24
    target_peak_lr: float = 3.5e-3
    num_dialogues: int = 24_000
    draft_steps: int = 1000
    draft_batch: int = 16
    draft_anchors: int = 16
    draft_peak_lr: float = 3e-3
    draft_prompts: int = 3000
    max_answer_tokens: int = 128
    """Longest answer of the target that the drafter is trained and measured on."""
    num_test_prompts: int = 40
    """Per category; neither the target nor the drafter is trained on these questions."""

    def scaled(self, factor: float) -> Recipe:
        """The recipe with counts multiplied, each at least a few; batches, rates and lengths stay."""
        return replace(
            self,
            target_steps=max(4, round(self.target_steps * factor)),
            num_dialogues=max(200, round(self.num_dialogues * factor)),
            draft_steps=max(4, round(self.draft_steps * factor)),
            draft_prompts=max(20, round(self.draft_prompts * factor)),
            num_test_prompts=max(2, round(self.num_test_prompts * min(1.0, factor))),
        )
