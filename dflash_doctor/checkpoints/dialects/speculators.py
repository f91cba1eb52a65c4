"""Checkpoints written by speculators: decoder fields nested, tap ids one more than z-lab's."""

from __future__ import annotations

from dflash_doctor.checkpoints.dialects.base import (
    COMMON,
    DFLASH_TENSORS,
    Dialect,
    Paths,
    TensorNames,
)
from dflash_doctor.checkpoints.dialects.dflash2 import DFLASH2_TENSORS
from dflash_doctor.checkpoints.dialects.dspark import DSPARK_TENSORS

_INNER = "transformer_layer_config"
_OUTSIDE = (
    "architecture", "draft_vocab_size", "target_hidden_size", "block_size", "mask_token_id",
    "sample_from_anchor", "markov_rank", "sliding_window_non_causal", "eagle_aux_layer_ids", "verifier_name",
    "verifier_architecture", "transformers_version", "conv_kernel_size", "selector_rank",
)  # fmt: skip
"""Fields that stand beside the nested decoder config."""


def _fields() -> dict[str, Paths]:
    fields = {
        name: tuple(f"{_INNER}.{path}" for path in paths)
        for name, paths in COMMON.items()
        if name not in _OUTSIDE
    }
    fields |= {
        "aux_layer_ids": ("aux_hidden_state_layer_ids",),
        "proposed_tokens": ("speculators_config.proposal_methods.0.speculative_tokens",),
        "tie_word_embeddings": ("tie_word_embeddings",),
        "dtype": (f"{_INNER}.dtype", f"{_INNER}.torch_dtype", "dtype", "torch_dtype"),
    }
    return fields


_SHARED = TensorNames(
    required=DFLASH_TENSORS.required,
    optional=(*DFLASH_TENSORS.optional, "verifier_lm_head", "verifier_norm"),
)

SPECULATORS = Dialect(
    name="speculators-dflash",
    summary="speculators_model_type dflash (and relatives without a line of their own)",
    recognises=lambda config: "speculators_model_type" in config or "speculators_config" in config,
    native="speculators",
    fields=_fields(),
    tensors=_SHARED,
)
SPECULATORS_DFLASH2 = Dialect(
    name="speculators-dflash2",
    summary="speculators_model_type dflash2",
    recognises=lambda config: config.get("speculators_model_type") == "dflash2",
    native="speculators",
    fields=_fields(),
    tensors=TensorNames(required=DFLASH2_TENSORS.required, optional=_SHARED.optional),
)
SPECULATORS_DSPARK = Dialect(
    name="speculators-dspark",
    summary="speculators_model_type dspark",
    recognises=lambda config: config.get("speculators_model_type") == "dspark",
    native="speculators",
    fields=_fields(),
    tensors=TensorNames(
        required=DFLASH_TENSORS.required, optional=(*_SHARED.optional, *DSPARK_TENSORS.optional)
    ),
)
SPECULATORS_EAGLE3 = Dialect(
    name="speculators-eagle3",
    summary="speculators_model_type eagle3, eagle or peagle",
    recognises=lambda config: config.get("speculators_model_type") in ("eagle3", "eagle", "peagle"),
    native="speculators",
    fields=_fields(),
)
