"""Targets as they are published: configs with the fields that a pair depends on, and sparse weight files.

Sizes are those of the public models; fields without a bearing on drafting are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkpoint_files import Tensors, write_checkpoint, write_gguf, write_json, write_sharded

Config = dict[str, Any]
WriteModel = Callable[[Path], None]


def dense(architecture: str, model_type: str, **fields: Any) -> Config:
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "attention_bias": False,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        **fields,
    }


def qwen3(
    hidden: int, layers: int, heads: int, ffn: int, *, kv_heads: int = 8, tied: bool = False, **fields: Any
) -> Config:
    return dense(
        "Qwen3ForCausalLM",
        "qwen3",
        hidden_size=hidden,
        intermediate_size=ffn,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=128,
        max_position_embeddings=40960,
        rope_theta=1000000,
        rope_scaling=None,
        sliding_window=None,
        use_sliding_window=False,
        vocab_size=151936,
        **{"tie_word_embeddings": tied, **fields},
    )


def qwen35(
    hidden: int, layers: int, heads: int, kv_heads: int, *, moe: bool = False, **fields: Any
) -> Config:
    """A multimodal hybrid: three linear-attention layers to one of full attention, all in `text_config`."""
    kind = "Qwen3_5MoeForConditionalGeneration" if moe else "Qwen3_5ForConditionalGeneration"
    family = "qwen3_5_moe" if moe else "qwen3_5"
    text = {
        "model_type": f"{family}_text",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": 256,
        "layer_types": [
            "full_attention" if index % 4 == 3 else "linear_attention" for index in range(layers)
        ],
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "max_position_embeddings": 262144,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000000,
            "partial_rotary_factor": 0.25,
            "mrope_section": [11, 11, 10],
        },
        "vocab_size": 248320,
        "dtype": "bfloat16",
        "tie_word_embeddings": False,
        **fields,
    }
    vision = {"depth": 27, "hidden_size": 1152, "out_hidden_size": hidden}
    return {
        "architectures": [kind],
        "model_type": family,
        "text_config": text,
        "vision_config": vision,
        "tie_word_embeddings": False,
    }


GEMMA4 = {
    "architectures": ["Gemma4ForConditionalGeneration"],
    "model_type": "gemma4",
    "text_config": {
        "model_type": "gemma4_text",
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "num_hidden_layers": 60,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "layer_types": ["full_attention" if index % 6 == 5 else "sliding_attention" for index in range(60)],
        "sliding_window": 1024,
        "max_position_embeddings": 262144,
        "rope_parameters": {
            "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
        "final_logit_softcapping": 30.0,
        "tie_word_embeddings": True,
        "vocab_size": 262144,
        "dtype": "bfloat16",
    },
    "vision_config": {"hidden_size": 1152},
    "tie_word_embeddings": True,
    "dtype": "bfloat16",
}
GLM = dense(
    "Glm5FlashForCausalLM",
    "glm5_flash",
    hidden_size=4096,
    intermediate_size=12288,
    num_hidden_layers=45,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=1048576,
    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0, "partial_rotary_factor": 0.5},
    vocab_size=154880,
)
MUSE_GLIMMER = {
    "architectures": ["MuseGlimmerForConditionalGeneration"],
    "model_type": "muse_glimmer",
    "text_config": {
        "model_type": "muse_glimmer_text",
        "hidden_size": 6656,
        "intermediate_size": 19968,
        "num_hidden_layers": 52,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "final_logit_softcapping": 20.0,
        "max_position_embeddings": 131072,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
        "tie_word_embeddings": False,
        "vocab_size": 202048,
        "dtype": "bfloat16",
    },
}
LAGUNA = dense(
    "LagunaForCausalLM",
    "laguna",
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=40,
    num_attention_heads=64,
    num_key_value_heads=8,
    head_dim=128,
    gating="per-head",
    max_position_embeddings=262144,
    rope_theta=500000.0,
    vocab_size=100352,
)
MIMO = dense(
    "MiMoV2FlashForCausalLM",
    "mimo_v2_flash",
    hidden_size=4096,
    intermediate_size=16384,
    num_hidden_layers=48,
    num_attention_heads=64,
    num_key_value_heads=4,
    head_dim=192,
    max_position_embeddings=262144,
    rope_theta=5000000,
    sliding_window=128,
    vocab_size=152576,
)
LLAMA31_8B = dense(
    "LlamaForCausalLM",
    "llama",
    hidden_size=4096,
    intermediate_size=14336,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=131072,
    rope_theta=500000.0,
    rope_scaling={
        "factor": 8.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    vocab_size=128256,
)
GPT_OSS_20B = dense(
    "GptOssForCausalLM",
    "gpt_oss",
    hidden_size=2880,
    intermediate_size=2880,
    num_hidden_layers=24,
    num_attention_heads=64,
    num_key_value_heads=8,
    head_dim=64,
    layer_types=["sliding_attention", "full_attention"] * 12,
    max_position_embeddings=131072,
    rope_theta=150000,
    rope_scaling={"factor": 32.0, "original_max_position_embeddings": 4096, "rope_type": "yarn"},
    sliding_window=128,
    vocab_size=201088,
    quantization_config={
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "model.embed_tokens",
            "lm_head",
        ],
    },
)
NEMOTRON = dense(
    "NemotronHForCausalLM",
    "nemotron_h",
    hidden_size=2688,
    intermediate_size=1856,
    num_hidden_layers=52,
    num_attention_heads=32,
    num_key_value_heads=2,
    head_dim=128,
    hybrid_override_pattern="MEM*E",
    mamba_num_heads=64,
    max_position_embeddings=262144,
    rope_theta=10000,
    vocab_size=131072,
)
QWEN3_4B = qwen3(2560, 36, 32, 9728, tied=True)
QWEN3_8B = qwen3(4096, 36, 32, 12288)
QWEN35_4B = qwen35(2560, 32, 16, 4)
QWEN35_35B = qwen35(2048, 40, 16, 2, moe=True)
QWEN35_122B = qwen35(3072, 48, 32, 2, moe=True)
QWEN36_27B = qwen35(5120, 64, 24, 4)
QWEN38_27B = qwen35(5120, 64, 24, 4)


def writes(config: Config, *, num_shards: int = 2) -> WriteModel:
    """Writes the folder of a target: embedding, head (where it has one of its own), norms."""

    def write(folder: Path) -> None:
        text = config.get("text_config", config)
        inside = "model.language_model." if "text_config" in config else "model."
        hidden, vocab = text["hidden_size"], text["vocab_size"]
        tensors: dict[str, tuple[str, list[int]]] = {
            inside + "embed_tokens.weight": ("BF16", [vocab, hidden]),
            inside + "norm.weight": ("BF16", [hidden]),
        }
        for index in range(text["num_hidden_layers"]):
            tensors[f"{inside}layers.{index}.input_layernorm.weight"] = ("BF16", [hidden])
        if not config.get("tie_word_embeddings"):
            tensors["lm_head.weight"] = ("BF16", [vocab, hidden])
        write_json(folder / "config.json", config)
        write_sharded(folder, tensors, num_shards)

    return write


def writes_gguf(folder: Path) -> None:
    """Qwen3-8B as llama.cpp stores it."""
    tensors: Tensors = {
        "token_embd.weight": ("Q4_K", [151936, 4096]),
        "output_norm.weight": ("F32", [4096]),
        "output.weight": ("Q4_K", [151936, 4096]),
    }
    metadata = {
        "general.architecture": "qwen3",
        "general.name": "Qwen3-8B",
        "qwen3.block_count": 36,
        "qwen3.context_length": 40960,
        "qwen3.embedding_length": 4096,
        "qwen3.feed_forward_length": 12288,
        "qwen3.attention.head_count": 32,
        "qwen3.attention.head_count_kv": 8,
        "qwen3.attention.key_length": 128,
        "qwen3.rope.freq_base": 1000000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [f"t{index}" for index in range(5000)],
    }
    write_gguf(folder / "Qwen3-8B-Q4_K_M.gguf", metadata, tensors)


def writes_small_qwen3(folder: Path) -> None:
    """Qwen3-0.6B, whole: a plain draft model."""
    config = qwen3(1024, 28, 16, 3072, tied=True)
    tensors: dict[str, tuple[str, list[int]]] = {
        "model.embed_tokens.weight": ("BF16", [151936, 1024]),
        "model.norm.weight": ("BF16", [1024]),
    }
    for index in range(28):
        layer = f"model.layers.{index}."
        tensors |= {
            layer + "self_attn.q_proj.weight": ("BF16", [2048, 1024]),
            layer + "self_attn.k_proj.weight": ("BF16", [1024, 1024]),
            layer + "self_attn.v_proj.weight": ("BF16", [1024, 1024]),
            layer + "self_attn.o_proj.weight": ("BF16", [1024, 2048]),
            layer + "self_attn.q_norm.weight": ("BF16", [128]),
            layer + "self_attn.k_norm.weight": ("BF16", [128]),
            layer + "mlp.gate_proj.weight": ("BF16", [3072, 1024]),
            layer + "mlp.up_proj.weight": ("BF16", [3072, 1024]),
            layer + "mlp.down_proj.weight": ("BF16", [1024, 3072]),
            layer + "input_layernorm.weight": ("BF16", [1024]),
            layer + "post_attention_layernorm.weight": ("BF16", [1024]),
        }
    write_checkpoint(folder, config, tensors)
