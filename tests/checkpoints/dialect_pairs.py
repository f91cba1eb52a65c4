"""Pairs that fit, one or more for every dialect: field values as found in public text, weights as holes.

Where public text leaves a field open, a value is chosen that goes with the rest. Layers, taps, windows, mask
ids, block and vocabulary sizes of the released drafters are theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import drafter_tensors as parts
import target_models as targets
from checkpoint_files import vocab_maps, write_checkpoint, write_gguf
from drafter_tensors import Shape, Tensors

SLIDING, FULL = "sliding_attention", "full_attention"
SPECULATOR_CLASSES = {
    "dflash": "DFlashSpeculator",
    "dflash2": "DFlash2DraftModel",
    "dspark": "DSparkSpeculator",
    "eagle3": "Eagle3Speculator",
}
V2_RUNNER = {"VLLM_USE_V2_MODEL_RUNNER": "1"}


@dataclass(frozen=True, kw_only=True)
class HealthyPair:
    """A pair on which nothing is wrong, and the engine that serves it."""

    name: str
    dialect: str
    served_by: str
    write_target: targets.WriteModel
    write_draft: Callable[[Path], None]
    taps: tuple[int, ...] | None
    """Outputs of these target layers."""
    causal: tuple[bool, ...]
    num_draft_tokens: int | None
    environ: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> tuple[str, str]:
        """Both folders; their paths, target first."""
        target, draft = folder / "target", folder / "draft"
        self.write_target(target)
        self.write_draft(draft)
        if self.dialect == "gguf":
            return str(next(target.glob("*.gguf"))), str(next(draft.glob("*.gguf")))
        return str(target), str(draft)


def backbone(shape: Shape, *, vocab: int, max_positions: int, theta: float, **fields: Any) -> dict[str, Any]:
    """The decoder fields that all families share."""
    return {
        "model_type": "qwen3",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.ffn,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": vocab,
        "max_position_embeddings": max_positions,
        "rope_theta": theta,
        "rope_scaling": None,
        "rms_norm_eps": 1e-6,
        "attention_bias": False,
        "hidden_act": "silu",
        "layer_types": [FULL] * shape.layers,
        "sliding_window": None,
        "use_sliding_window": False,
        **fields,
    }


def windows(sliding: int, full: int, window: int) -> dict[str, Any]:
    """Fields of a drafter whose first layers slide."""
    return {
        "layer_types": [SLIDING] * sliding + [FULL] * full,
        "sliding_window": window,
        "use_sliding_window": True,
    }


def zlab(
    shape: Shape,
    taps: tuple[int, ...],
    *,
    mask: int,
    layers: int,
    block: int = 16,
    block_on_top: bool = False,
    nested: Mapping[str, Any] | None = None,
    architecture: str = "DFlashDraftModel",
    **fields: Any,
) -> dict[str, Any]:
    """z-lab's layout; `layers` counts the target's."""
    inner: dict[str, Any] = {"mask_token_id": mask, "target_layer_ids": list(taps), **(nested or {})}
    config = {
        "architectures": [architecture],
        **backbone(shape, **fields),
        "num_target_layers": layers,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "dflash_config": inner,
    }
    if block_on_top:
        config["block_size"] = block
    else:
        inner["block_size"] = block
    return config


def speculators(
    kind: str,
    shape: Shape,
    aux_ids: tuple[int, ...],
    *,
    block: int,
    mask: int,
    tokens: int,
    verifier: tuple[str, str],
    draft_vocab: int,
    top: Mapping[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """speculators' layout: the decoder nested, the rest beside it."""
    layer = backbone(shape, **fields)
    theta = layer.pop("rope_theta")
    layer.pop("rope_scaling")
    layer["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}
    layer["tie_word_embeddings"] = False
    return {
        "architectures": [SPECULATOR_CLASSES[kind]],
        "speculators_model_type": kind,
        "speculators_version": "0.9.0",
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": tokens}],
            "verifier": {"name_or_path": verifier[0], "architectures": [verifier[1]]},
        },
        "aux_hidden_state_layer_ids": list(aux_ids),
        "block_size": block,
        "mask_token_id": mask,
        "draft_vocab_size": draft_vocab,
        "target_hidden_size": None,
        "sample_from_anchor": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "transformer_layer_config": layer,
        **(top or {}),
    }


def stored(
    config: Mapping[str, Any], tensors: Tensors, *, reduced_to: int | None = None, mask_file: bool = False
) -> Callable[[Path], None]:
    """Writes the drafter; `reduced_to` adds a head for a smaller vocabulary and its tables."""

    def write(folder: Path) -> None:
        held, data = dict(tensors), {}
        if reduced_to is not None:
            layer = config.get("transformer_layer_config", config)
            tables, data = vocab_maps(reduced_to, layer["vocab_size"])
            held |= tables
            held |= parts.linear("lm_head", reduced_to, layer["hidden_size"])
        write_checkpoint(folder, config, held, data)
        if mask_file:
            (folder / "mask_embedding.pt").write_bytes(bytes(64))

    return write


QWEN3 = {"vocab": 151936, "max_positions": 40960, "theta": 1000000.0}
QWEN35 = {"vocab": 248320, "max_positions": 262144, "theta": 10000000.0}
QWEN3_8B_SHAPE = Shape(hidden=4096, ffn=12288, layers=5)
QWEN27B_SHAPE = Shape(hidden=5120, ffn=17408, layers=5)
TAPS_36 = (1, 9, 17, 25, 33)
AUX_36 = (2, 10, 18, 26, 34)
QWEN3_8B_VERIFIER = ("Qwen/Qwen3-8B", "Qwen3ForCausalLM")
LLAMA_VERIFIER = ("meta-llama/Llama-3.1-8B-Instruct", "LlamaForCausalLM")
BOTH_WAYS_5, CAUSAL_5 = (False,) * 5, (True,) * 5


def _zlab_pairs() -> list[HealthyPair]:
    shape_4b = Shape(hidden=2560, ffn=9728, layers=5)
    qwen3_4b = zlab(shape_4b, TAPS_36, mask=151669, layers=36, block_on_top=True, **QWEN3)
    qwen3_4b["tie_word_embeddings"] = True
    qwen3_8b = zlab(QWEN3_8B_SHAPE, TAPS_36, mask=151669, layers=36, block_on_top=True, **QWEN3)
    taps_32 = (1, 8, 15, 22, 29)
    qwen35_4b = zlab(shape_4b, taps_32, mask=248070, layers=32, **QWEN35)
    qwen35_9b = zlab(QWEN3_8B_SHAPE, taps_32, mask=248070, layers=32, **QWEN35)
    shape_35b = Shape(hidden=2048, ffn=6144, layers=5)
    taps_35b = (1, 10, 19, 28, 37)
    first_35b = zlab(shape_35b, taps_35b, mask=248070, layers=40, **QWEN35)
    later_shape = Shape(hidden=2048, ffn=6144, layers=6, num_taps=8)
    later_taps = (1, 6, 11, 16, 22, 27, 32, 37)
    later_35b = zlab(later_shape, later_taps, mask=248077, layers=40, **QWEN35, **windows(5, 1, 4096))
    april_shape = Shape(hidden=3072, ffn=9216, layers=4, num_taps=6)
    april_taps = (1, 10, 19, 27, 36, 45)
    april = zlab(april_shape, april_taps, mask=248077, layers=48, **QWEN35, **windows(3, 1, 2048))
    june_shape = Shape(hidden=3072, ffn=9216, layers=6, num_taps=8)
    june_taps = (1, 7, 14, 20, 26, 32, 39, 45)
    june = zlab(june_shape, june_taps, mask=248077, layers=48, **QWEN35, **windows(5, 1, 4096))
    taps_64 = (1, 16, 31, 46, 61)
    qwen36 = zlab(QWEN27B_SHAPE, taps_64, mask=248070, layers=64, **QWEN35, **windows(4, 1, 2048))
    gemma_shape = Shape(hidden=5376, ffn=10752, layers=5, heads=64, num_taps=6)
    gemma_taps = (1, 12, 23, 35, 46, 57)
    gemma = zlab(
        gemma_shape,
        gemma_taps,
        mask=4,
        layers=60,
        nested={"final_logit_softcapping": 30.0},
        vocab=262144,
        max_positions=262144,
        theta=1000000.0,
        **windows(4, 1, 2048),
    )
    gemma["tie_word_embeddings"] = True
    llama_taps = (1, 8, 15, 22, 29)
    llama = zlab(
        Shape(hidden=4096, ffn=14336, layers=5),
        llama_taps,
        mask=128002,
        layers=32,
        block=10,
        block_on_top=True,
        vocab=128256,
        max_positions=131072,
        theta=500000.0,
    )
    oss_taps = (1, 6, 11, 16, 21)
    oss_shape = Shape(hidden=2880, ffn=7680, layers=5, heads=64, head_dim=64)
    oss = zlab(
        oss_shape,
        oss_taps,
        mask=200000,
        layers=24,
        block=8,
        vocab=201088,
        max_positions=131072,
        theta=150000.0,
    )

    def pair(
        name: str,
        target: targets.Config,
        config: dict[str, Any],
        shape: Shape,
        taps: tuple[int, ...],
        causal: tuple[bool, ...],
        tokens: int = 15,
        served_by: str = "vllm",
    ) -> HealthyPair:
        return HealthyPair(
            name=name,
            dialect="z-lab",
            served_by=served_by,
            write_target=targets.writes(target),
            write_draft=stored(config, parts.dflash(shape)),
            taps=taps,
            causal=causal,
            num_draft_tokens=tokens,
            environ=V2_RUNNER if len(set(causal)) > 1 else {},
        )

    mixed_5 = (True,) * 4 + (False,)
    mixed_6 = (True,) * 5 + (False,)
    return [
        pair("zlab-qwen3-4b", targets.QWEN3_4B, qwen3_4b, shape_4b, TAPS_36, BOTH_WAYS_5),
        pair("zlab-qwen3-8b", targets.QWEN3_8B, qwen3_8b, QWEN3_8B_SHAPE, TAPS_36, BOTH_WAYS_5),
        pair(
            "zlab-qwen3-8b-sglang",
            targets.QWEN3_8B,
            qwen3_8b,
            QWEN3_8B_SHAPE,
            TAPS_36,
            BOTH_WAYS_5,
            served_by="sglang",
        ),
        pair(
            "zlab-qwen3-8b-transformers",
            targets.QWEN3_8B,
            qwen3_8b,
            QWEN3_8B_SHAPE,
            TAPS_36,
            BOTH_WAYS_5,
            served_by="transformers",
        ),
        pair("zlab-qwen3.5-4b", targets.QWEN35_4B, qwen35_4b, shape_4b, taps_32, BOTH_WAYS_5),
        pair(
            "zlab-qwen3.5-9b",
            targets.qwen35(4096, 32, 16, 4),
            qwen35_9b,
            QWEN3_8B_SHAPE,
            taps_32,
            BOTH_WAYS_5,
        ),
        pair("zlab-qwen3.5-35b", targets.QWEN35_35B, first_35b, shape_35b, taps_35b, BOTH_WAYS_5),
        pair("zlab-qwen3.5-35b-later", targets.QWEN35_35B, later_35b, later_shape, later_taps, mixed_6),
        pair(
            "zlab-qwen3.5-122b-april",
            targets.QWEN35_122B,
            april,
            april_shape,
            april_taps,
            (True,) * 3 + (False,),
        ),
        pair("zlab-qwen3.5-122b-june", targets.QWEN35_122B, june, june_shape, june_taps, mixed_6),
        pair("zlab-qwen3.6-27b", targets.QWEN36_27B, qwen36, QWEN27B_SHAPE, taps_64, mixed_5),
        pair(
            "zlab-qwen3.6-27b-sglang",
            targets.QWEN36_27B,
            qwen36,
            QWEN27B_SHAPE,
            taps_64,
            mixed_5,
            served_by="sglang",
        ),
        pair("zlab-gemma-4-31b", targets.GEMMA4, gemma, gemma_shape, gemma_taps, mixed_5),
        pair(
            "zlab-llama-3.1-8b",
            targets.LLAMA31_8B,
            llama,
            Shape(hidden=4096, ffn=14336, layers=5),
            llama_taps,
            BOTH_WAYS_5,
            9,
        ),
        pair("zlab-gpt-oss-20b", targets.GPT_OSS_20B, oss, oss_shape, oss_taps, BOTH_WAYS_5, 7),
    ]


def _dflash2_pairs() -> list[HealthyPair]:
    extra = {"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 256, "selector_top_k": 16}
    taps = (5, 19, 33, 47, 61)
    qwen38 = zlab(
        QWEN27B_SHAPE,
        taps,
        mask=248070,
        layers=64,
        block=8,
        architecture="DFlash2DraftModel",
        nested=extra,
        is_causal=False,
        **QWEN35,
        **windows(5, 0, 2048),
    )
    glm_taps = (5, 14, 24, 33, 42)
    glm = zlab(
        QWEN3_8B_SHAPE,
        glm_taps,
        mask=154856,
        layers=45,
        block=8,
        architecture="DFlash2DraftModel",
        nested=extra,
        is_causal=False,
        vocab=154880,
        max_positions=1048576,
        theta=1000000.0,
        **windows(5, 0, 2048),
    )

    def pair(name: str, target: targets.Config, config: dict[str, Any], served_by: str) -> HealthyPair:
        shape = QWEN27B_SHAPE if config is qwen38 else QWEN3_8B_SHAPE
        return HealthyPair(
            name=name,
            dialect="dflash2",
            served_by=served_by,
            write_target=targets.writes(target),
            write_draft=stored(config, parts.dflash2(shape, vocab=config["vocab_size"])),
            taps=tuple(config["dflash_config"]["target_layer_ids"]),
            causal=BOTH_WAYS_5,
            num_draft_tokens=7,
            environ=V2_RUNNER if served_by == "vllm" else {},
        )

    return [
        pair("dflash2-qwen3.8-27b", targets.QWEN38_27B, qwen38, "vllm"),
        pair("dflash2-qwen3.8-27b-sglang", targets.QWEN38_27B, qwen38, "sglang"),
        pair("dflash2-glm-5.3-flash", targets.GLM, glm, "vllm"),
    ]


def _speculators_pairs() -> list[HealthyPair]:
    redhat = speculators(
        "dflash",
        QWEN3_8B_SHAPE,
        AUX_36,
        block=8,
        mask=151669,
        tokens=7,
        verifier=QWEN3_8B_VERIFIER,
        draft_vocab=32000,
        **QWEN3,
    )
    hybrid_shape = Shape(hidden=2048, ffn=6144, layers=5, heads=16, kv_heads=2, head_dim=256)
    hybrid = speculators(
        "dflash",
        hybrid_shape,
        (1, 10, 19, 28, 37),
        block=16,
        mask=248077,
        tokens=15,
        verifier=("Qwen/Qwen3.6-35B-A3B", "Qwen3_5MoeForConditionalGeneration"),
        draft_vocab=248320,
        top={"sliding_window_non_causal": True},
        **QWEN35,
    )
    llama_shape = Shape(hidden=4096, ffn=14336, layers=5)
    llama_rope = {"vocab": 128256, "max_positions": 131072, "theta": 500000.0}
    llama = speculators(
        "dflash",
        llama_shape,
        (2, 9, 16, 23, 30),
        block=8,
        mask=128002,
        tokens=7,
        verifier=LLAMA_VERIFIER,
        draft_vocab=128256,
        top={"sliding_window_non_causal": True},
        **llama_rope,
        **windows(4, 1, 2048),
    )
    causal = speculators(
        "dflash",
        llama_shape,
        (2, 9, 16, 23, 30),
        block=8,
        mask=128002,
        tokens=7,
        verifier=LLAMA_VERIFIER,
        draft_vocab=128256,
        top={"sliding_window_non_causal": False},
        **llama_rope,
        **windows(5, 0, 2048),
    )
    second = speculators(
        "dflash2",
        QWEN3_8B_SHAPE,
        AUX_36,
        block=8,
        mask=151669,
        tokens=7,
        verifier=QWEN3_8B_VERIFIER,
        draft_vocab=151936,
        top={
            "sliding_window_non_causal": True,
            "conv_kernel_size": 2,
            "conv_group_size": 16,
            "selector_rank": 256,
            "selector_top_k": 16,
        },
        **QWEN3,
        **windows(5, 0, 2048),
    )
    spark = speculators(
        "dspark",
        QWEN3_8B_SHAPE,
        AUX_36,
        block=7,
        mask=151669,
        tokens=7,
        verifier=QWEN3_8B_VERIFIER,
        draft_vocab=151936,
        top={
            "sample_from_anchor": True,
            "markov_rank": 256,
            "markov_head_type": "vanilla",
            "enable_confidence_head": True,
            "confidence_head_with_markov": True,
            "sliding_window_non_causal": False,
        },
        **QWEN3,
    )
    head_shape = Shape(hidden=4096, ffn=12288, layers=1, num_taps=3)
    head = speculators(
        "eagle3",
        head_shape,
        (),
        block=1,
        mask=0,
        tokens=3,
        verifier=QWEN3_8B_VERIFIER,
        draft_vocab=32000,
        top={"eagle_aux_hidden_state_layer_ids": [2, 18, 33], "norm_before_residual": True},
        **QWEN3,
    )
    for name in ("aux_hidden_state_layer_ids", "block_size", "mask_token_id", "sample_from_anchor"):
        del head[name]
    common = {"served_by": "vllm", "write_target": targets.writes(targets.QWEN3_8B)}
    on_llama = {"served_by": "vllm", "write_target": targets.writes(targets.LLAMA31_8B)}
    return [
        HealthyPair(
            name="speculators-qwen3-8b",
            dialect="speculators-dflash",
            write_draft=stored(redhat, parts.dflash(QWEN3_8B_SHAPE), reduced_to=32000),
            taps=TAPS_36,
            causal=BOTH_WAYS_5,
            num_draft_tokens=7,
            **common,
        ),
        HealthyPair(
            name="speculators-qwen3.6-35b",
            dialect="speculators-dflash",
            served_by="vllm",
            write_target=targets.writes(targets.QWEN35_35B),
            write_draft=stored(hybrid, parts.dflash(hybrid_shape)),
            taps=(0, 9, 18, 27, 36),
            causal=BOTH_WAYS_5,
            num_draft_tokens=15,
        ),
        HealthyPair(
            name="speculators-llama-3.1-8b-mixed",
            dialect="speculators-dflash",
            write_draft=stored(llama, parts.dflash(llama_shape)),
            taps=(1, 8, 15, 22, 29),
            causal=BOTH_WAYS_5,
            num_draft_tokens=7,
            environ=V2_RUNNER,
            **on_llama,
        ),
        HealthyPair(
            name="speculators-llama-3.1-8b-causal",
            dialect="speculators-dflash",
            write_draft=stored(causal, parts.dflash(llama_shape)),
            taps=(1, 8, 15, 22, 29),
            causal=CAUSAL_5,
            num_draft_tokens=7,
            **on_llama,
        ),
        HealthyPair(
            name="speculators-dflash2-qwen3-8b",
            dialect="speculators-dflash2",
            write_draft=stored(second, parts.dflash2(QWEN3_8B_SHAPE, vocab=151936)),
            taps=TAPS_36,
            causal=BOTH_WAYS_5,
            num_draft_tokens=7,
            environ=V2_RUNNER,
            **common,
        ),
        HealthyPair(
            name="speculators-dspark-qwen3-8b",
            dialect="speculators-dspark",
            write_draft=stored(spark, parts.dspark(QWEN3_8B_SHAPE, vocab=151936)),
            taps=TAPS_36,
            causal=BOTH_WAYS_5,
            num_draft_tokens=7,
            environ=V2_RUNNER,
            **common,
        ),
        HealthyPair(
            name="speculators-eagle3-qwen3-8b",
            dialect="speculators-eagle3",
            write_draft=stored(
                head, parts.eagle3(head_shape, "layers.0.", draft_vocab=32000), reduced_to=32000
            ),
            taps=(1, 17, 32),
            causal=(False,),
            num_draft_tokens=None,
            **common,
        ),
    ]


def _muse_glimmer_pairs() -> list[HealthyPair]:
    shape = Shape(hidden=6656, ffn=19968, layers=5)
    config = {
        "architectures": ["MuseGlimmerAssistantModel"],
        **backbone(shape, vocab=202048, max_positions=131072, theta=500000.0, **windows(5, 0, 2048)),
        "model_type": "muse_glimmer_assistant",
        "rms_norm_eps": 1e-5,
        "block_size": 16,
        "mask_token_id": 201818,
        "target_layer_ids": [1, 13, 25, 37, 49],
        "dtype": "bfloat16",
    }
    for name in ("vocab_size", "rope_theta", "rope_scaling", "use_sliding_window"):
        del config[name]
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 500000.0}
    return [
        HealthyPair(
            name=f"muse-glimmer-30b-{engine}",
            dialect="muse-glimmer",
            served_by=engine,
            write_target=targets.writes(targets.MUSE_GLIMMER),
            write_draft=stored(config, parts.muse_glimmer(shape)),
            taps=(1, 13, 25, 37, 49),
            causal=BOTH_WAYS_5,
            num_draft_tokens=15,
        )
        for engine in ("transformers", "vllm", "sglang")
    ]


def _vendor_pairs() -> list[HealthyPair]:
    """Families of one vendor each."""
    laguna_shape = Shape(hidden=2048, ffn=8192, layers=5, heads=64)
    laguna_taps = (1, 13, 25, 33, 39)
    laguna = zlab(
        laguna_shape,
        laguna_taps,
        mask=12,
        layers=40,
        architecture="DFlashLagunaForCausalLM",
        nested={"causal": True, "num_target_layers": 40, "decoder_layer_type": "laguna"},
        vocab=100352,
        max_positions=262144,
        theta=500000.0,
        **windows(5, 0, 512),
    )
    laguna |= {"model_type": "laguna", "gating": "per-head", "draft_vocab_size": 100352}
    del laguna["num_target_layers"]
    mimo_shape = Shape(hidden=4096, ffn=12288, layers=5, heads=64)
    mimo_taps = (1, 12, 23, 34, 45)
    mimo = zlab(
        mimo_shape,
        mimo_taps,
        mask=151669,
        layers=48,
        block=8,
        nested={
            "use_swa": True,
            "swa_window_size": 1024,
            "attention_sink_bias": True,
            "attention_value_scale": 0.707,
        },
        vocab=152576,
        max_positions=262144,
        theta=5000000.0,
    )
    oss_shape = Shape(hidden=2880, ffn=7680, layers=5, heads=64, head_dim=64)
    modelopt = zlab(
        oss_shape,
        (1, 6, 11, 16, 21),
        mask=200000,
        layers=24,
        block=8,
        nested={"causal": False, "use_swa": False, "swa_window_size": None},
        vocab=201088,
        max_positions=131072,
        theta=150000.0,
    )
    nemotron_shape = Shape(hidden=2688, ffn=8064, layers=5)
    nemotron_taps = (1, 13, 25, 37, 49)
    nemotron = zlab(
        nemotron_shape,
        nemotron_taps,
        mask=131071,
        layers=52,
        block=8,
        vocab=131072,
        max_positions=262144,
        theta=10000.0,
    ) | {
        "has_embed_tokens": True,
        "has_lm_head": False,
        "eagle_aux_hidden_state_layer_ids": [item + 1 for item in nemotron_taps],
        "sample_from_anchor": False,
        "quantization_config": {
            "quant_method": "modelopt",
            "quant_algo": "W4A16_NVFP4",
            "group_size": 16,
            "ignore": ["embed_tokens", "fc", "lm_head"],
        },
    }
    nemotron_tensors = parts.in_nvfp4(parts.dflash(nemotron_shape)) | parts.linear(
        "embed_tokens", 131072, 2688
    )
    return [
        HealthyPair(
            name="laguna-xs",
            dialect="laguna",
            served_by="vllm",
            write_target=targets.writes(targets.LAGUNA),
            write_draft=stored(laguna, parts.laguna(laguna_shape)),
            taps=laguna_taps,
            causal=CAUSAL_5,
            num_draft_tokens=15,
        ),
        HealthyPair(
            name="mimo-v2.5",
            dialect="mimo",
            served_by="vllm",
            write_target=targets.writes(targets.MIMO),
            write_draft=stored(mimo, parts.with_sinks(parts.dflash(mimo_shape), mimo_shape), mask_file=True),
            taps=mimo_taps,
            causal=BOTH_WAYS_5,
            num_draft_tokens=7,
        ),
        HealthyPair(
            name="modelopt-gpt-oss-20b",
            dialect="modelopt",
            served_by="vllm",
            write_target=targets.writes(targets.GPT_OSS_20B),
            write_draft=stored(modelopt, parts.dflash(oss_shape)),
            taps=(1, 6, 11, 16, 21),
            causal=BOTH_WAYS_5,
            num_draft_tokens=7,
        ),
        HealthyPair(
            name="nemotron-3.5",
            dialect="nemotron",
            served_by="vllm",
            write_target=targets.writes(targets.NEMOTRON),
            write_draft=stored(nemotron, nemotron_tensors),
            taps=nemotron_taps,
            causal=BOTH_WAYS_5,
            num_draft_tokens=7,
        ),
    ]


def _other_heads() -> list[HealthyPair]:
    """DSpark, Domino, LiLiCorr and XPress: DFlash backbones with another head."""
    taps = (5, 19, 33, 47, 61)
    spark = {
        "architectures": ["Qwen3DSparkModel"],
        **backbone(QWEN27B_SHAPE, **QWEN35),
        "rope_theta": None,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000000.0,
            "factor": 32.0,
            "original_max_position_embeddings": 8192,
        },
        "block_size": 7,
        "mask_token_id": 248070,
        "target_layer_ids": list(taps),
        "num_target_layers": 64,
        "markov_rank": 256,
        "markov_head_type": "vanilla",
        "enable_confidence_head": True,
        "confidence_head_with_markov": True,
        "sample_from_anchor": True,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    for name in ("rope_theta", "rope_scaling"):
        del spark[name]

    def on_qwen3(architecture: str = "DFlashDraftModel", **nested: Any) -> dict[str, Any]:
        return zlab(
            QWEN3_8B_SHAPE,
            TAPS_36,
            mask=151669,
            layers=36,
            architecture=architecture,
            nested=nested,
            **QWEN3,
        )

    domino = on_qwen3(
        projector_type="domino", shift_label=True, gru_hidden_dim=1024, emb_dim=512, pure_draft_prefix_len=1
    )
    lilicorr = on_qwen3("LiLiCorrDraftModel", lilicorr_enabled=True)
    xpress = on_qwen3("Qwen3XPressModel") | {"xpress_rank": 256, "num_jacobi_passes": 6}

    def pair(name: str, served_by: str, config: dict[str, Any], tensors: Tensors) -> HealthyPair:
        return HealthyPair(
            name=f"{name}-qwen3-8b",
            dialect=name,
            served_by=served_by,
            write_target=targets.writes(targets.QWEN3_8B),
            write_draft=stored(config, tensors),
            taps=TAPS_36,
            causal=BOTH_WAYS_5,
            num_draft_tokens=15,
            environ=V2_RUNNER if name == "lilicorr" else {},
        )

    return [
        *(
            HealthyPair(
                name=f"dspark-qwen3.8-27b-{engine}",
                dialect="dspark",
                served_by=engine,
                write_target=targets.writes(targets.QWEN38_27B),
                write_draft=stored(spark, parts.dspark(QWEN27B_SHAPE, vocab=248320)),
                taps=taps,
                causal=BOTH_WAYS_5,
                num_draft_tokens=7,
                environ=V2_RUNNER if engine == "vllm" else {},
            )
            for engine in ("vllm", "sglang")
        ),
        pair("domino", "sglang", domino, parts.domino(QWEN3_8B_SHAPE, vocab=151936)),
        pair("lilicorr", "vllm", lilicorr, parts.dflash(QWEN3_8B_SHAPE)),
        pair("xpress", "vllm", xpress, parts.dflash(QWEN3_8B_SHAPE)),
    ]


def _without_blocks() -> list[HealthyPair]:
    """EAGLE-3 and a plain draft model."""
    shape = Shape(hidden=4096, ffn=14336, layers=1, num_taps=3)
    head = {
        "architectures": ["LlamaForCausalLMEagle3"],
        **backbone(shape, vocab=128256, max_positions=131072, theta=500000.0),
        "model_type": "llama",
        "draft_vocab_size": 32000,
        "eagle_aux_hidden_state_layer_ids": [2, 16, 29],
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    return [
        HealthyPair(
            name="eagle3-llama-3.1-8b",
            dialect="eagle3",
            served_by="vllm",
            write_target=targets.writes(targets.LLAMA31_8B),
            write_draft=stored(head, parts.eagle3(shape, "midlayer.", draft_vocab=32000), reduced_to=32000),
            taps=(1, 15, 28),
            causal=(False,),
            num_draft_tokens=None,
        ),
        HealthyPair(
            name="draft-model-qwen3",
            dialect="draft-model",
            served_by="vllm",
            write_target=targets.writes(targets.QWEN3_8B),
            write_draft=targets.writes_small_qwen3,
            taps=None,
            causal=(False,) * 28,
            num_draft_tokens=None,
        ),
    ]


def _write_gguf_drafter(folder: Path) -> None:
    metadata = {
        "general.architecture": "dflash",
        "general.name": "Qwen3-8B-DFlash",
        "dflash.block_count": 5,
        "dflash.context_length": 40960,
        "dflash.embedding_length": 4096,
        "dflash.feed_forward_length": 12288,
        "dflash.attention.head_count": 32,
        "dflash.attention.head_count_kv": 8,
        "dflash.attention.key_length": 128,
        "dflash.attention.causal": False,
        "dflash.rope.freq_base": 1000000.0,
        "dflash.vocab_size": 151936,
        "dflash.block_size": 16,
        "dflash.sample_from_anchor": False,
        "dflash.target_layers": list(AUX_36),
        "dflash.decoder_arch": "qwen3",
        "tokenizer.ggml.mask_token_id": 151669,
    }
    tensors: Tensors = {
        "fc.weight": ("Q8_0", [4096, 20480]),
        "enc.output_norm.weight": ("F32", [4096]),
        "output_norm.weight": ("F32", [4096]),
    }
    for index in range(5):
        layer = f"blk.{index}."
        tensors |= {
            layer + "attn_q.weight": ("Q8_0", [4096, 4096]),
            layer + "attn_k.weight": ("Q8_0", [1024, 4096]),
            layer + "attn_v.weight": ("Q8_0", [1024, 4096]),
            layer + "attn_output.weight": ("Q8_0", [4096, 4096]),
            layer + "attn_q_norm.weight": ("F32", [128]),
            layer + "attn_k_norm.weight": ("F32", [128]),
            layer + "ffn_gate.weight": ("Q8_0", [12288, 4096]),
            layer + "ffn_up.weight": ("Q8_0", [12288, 4096]),
            layer + "ffn_down.weight": ("Q8_0", [4096, 12288]),
            layer + "attn_norm.weight": ("F32", [4096]),
            layer + "ffn_norm.weight": ("F32", [4096]),
        }
    write_gguf(folder / "Qwen3-8B-DFlash-Q8_0.gguf", metadata, tensors)


GGUF_PAIR = HealthyPair(
    name="gguf-qwen3-8b",
    dialect="gguf",
    served_by="llama.cpp",
    write_target=targets.writes_gguf,
    write_draft=_write_gguf_drafter,
    taps=TAPS_36,
    causal=BOTH_WAYS_5,
    num_draft_tokens=15,
)

HEALTHY: tuple[HealthyPair, ...] = (
    *_zlab_pairs(),
    *_dflash2_pairs(),
    *_speculators_pairs(),
    *_muse_glimmer_pairs(),
    *_vendor_pairs(),
    *_other_heads(),
    *_without_blocks(),
    GGUF_PAIR,
)


def pair_called(name: str) -> HealthyPair:
    return next(pair for pair in HEALTHY if pair.name == name)
