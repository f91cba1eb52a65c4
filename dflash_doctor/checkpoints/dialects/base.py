"""What a dialect is: how one family of drafters spells its config and names its tensors.

One file per family, a line in the catalog. A dialect recognises its own configs and says where each field
of the normal form stands; everything else (types, sources, lines) is done once, in `normal_form`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Config = Mapping[str, Any]
Paths = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TensorNames:
    """Modules of a drafter's weight file, without `model.` in front and without `.weight` behind.

    `{i}` stands for each drafter layer. A quantised module counts as there whatever its parts are called.
    """

    required: Paths = ()
    optional: Paths = ()


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """A family of drafter checkpoints."""

    name: str
    summary: str
    recognises: Callable[[Config], bool]
    native: str
    """Whose reading the family was trained under: a line of the semantics table."""
    fields: Mapping[str, Paths] = field(default_factory=dict)
    """Field of the normal form -> key paths, the first that is stated wins; adds to `COMMON`."""
    tensors: TensorNames | None = None
    """`None`: the family's tensors are not known, so names are not judged."""
    needs_mask_embedding: bool = False
    """The mask's row in the table means nothing; `mask_embedding.pt` must lie beside the weights."""

    def paths(self) -> dict[str, Paths]:
        """Where every field stands."""
        return {**COMMON, **self.fields}


def nested_first(name: str) -> Paths:
    """In `dflash_config`, else at top level."""
    return (f"dflash_config.{name}", name)


COMMON: dict[str, Paths] = {
    **{
        name: (name,)
        for name in (
            "model_type", "hidden_size", "intermediate_size", "head_dim", "vocab_size", "draft_vocab_size",
            "target_hidden_size", "num_target_layers", "layer_types", "sliding_window", "use_sliding_window",
            "is_causal",
            "rope_theta", "is_neox_style", "rope_is_neox_style", "max_position_embeddings",
            "tie_word_embeddings", "sample_from_anchor", "target_layer_ids", "markov_rank",
            "sliding_window_non_causal", "transformers_version",
        )
    },
    "architecture": ("architectures.0",),
    "num_layers": ("num_hidden_layers",),
    "num_heads": ("num_attention_heads",),
    "num_kv_heads": ("num_key_value_heads",),
    "block_size": nested_first("block_size"),
    "mask_token_id": nested_first("mask_token_id"),
    "nested_sample_from_anchor": ("dflash_config.sample_from_anchor",),
    "nested_target_layer_ids": ("dflash_config.target_layer_ids",),
    "eagle_aux_layer_ids": (
        "eagle_aux_hidden_state_layer_ids", "eagle_config.eagle_aux_hidden_state_layer_ids",
    ),
    "use_swa": ("dflash_config.use_swa",),
    "swa_window_size": ("dflash_config.swa_window_size",),
    "causal": ("dflash_config.causal",),
    "nested_rope_theta": ("rope_parameters.rope_theta", "rope_scaling.rope_theta"),
    "partial_rotary_factor": (
        "rope_parameters.partial_rotary_factor", "rope_scaling.partial_rotary_factor",
        "partial_rotary_factor",
    ),
    "rope_type": ("rope_parameters.rope_type", "rope_scaling.rope_type", "rope_scaling.type"),
    "rope_factor": ("rope_parameters.factor", "rope_scaling.factor"),
    "dtype": ("dtype", "torch_dtype"),
    "final_logit_softcapping": nested_first("final_logit_softcapping"),
    "input_embedding_scale": nested_first("input_embedding_scale"),
    "output_multiplier": nested_first("output_multiplier"),
    "conv_kernel_size": nested_first("conv_kernel_size"),
    "selector_rank": nested_first("selector_rank"),
    "projector_type": nested_first("projector_type"),
    "has_own_embedding": ("has_embed_tokens",),
    "verifier_name": ("speculators_config.verifier.name_or_path", "base_model_name_or_path"),
    "verifier_architecture": ("speculators_config.verifier.architectures.0",),
}  # fmt: skip
"""Where fields stand in most families. A dotted path descends; a number takes an entry of a list."""

QWEN3_LAYER: Paths = tuple(
    "layers.{i}." + name
    for name in (
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "self_attn.q_norm",
        "self_attn.k_norm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm",
        "post_attention_layernorm",
    )
)  # fmt: skip
FUSED: Mapping[str, str] = {
    "self_attn.q_proj": "self_attn.qkv_proj",
    "self_attn.k_proj": "self_attn.qkv_proj",
    "self_attn.v_proj": "self_attn.qkv_proj",
    "mlp.gate_proj": "mlp.gate_up_proj",
    "mlp.up_proj": "mlp.gate_up_proj",
}
"""Modules that some exporters store as one."""
DFLASH_TENSORS = TensorNames(
    required=(*QWEN3_LAYER, "fc", "hidden_norm", "norm"),
    optional=("embed_tokens", "lm_head", "d2t", "t2d", "layers.{i}.self_attn.attention_sink_bias"),
)


def architectures(config: Config) -> tuple[str, ...]:
    """Class names that a config asks for."""
    names = config.get("architectures")
    return tuple(item for item in names if isinstance(item, str)) if isinstance(names, list) else ()


def nested(config: Config) -> Config:
    """`dflash_config`, empty where it is absent or no object."""
    value = config.get("dflash_config")
    return value if isinstance(value, dict) else {}


def has_architecture(config: Config, *parts: str) -> bool:
    """Whether any class name contains one of these parts."""
    return any(part in name for name in architectures(config) for part in parts)
