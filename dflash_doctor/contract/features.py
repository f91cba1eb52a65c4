"""Names for what a run uses, so that rows of data can speak about it.

`ContractEvidence.features` maps these names to values. A feature that nobody could find out is left out:
unknown is neither true nor false.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Feature(NamedTuple):
    """One name of the vocabulary."""

    name: str
    meaning: str
    type: type


FEATURES: tuple[Feature, ...] = (
    Feature("method", "speculation method as vLLM spells it: dflash, dspark, eagle3, mtp, ngram ...", str),
    Feature("draft_kind", "dflash, dflash2, dspark, eagle3, mtp or draft-model, by the drafter's files", str),
    Feature("draft_dialect", "family of the drafter's config, a name of the dialect catalog", str),
    Feature("device", "cuda, rocm, xpu, npu or cpu", str),
    Feature("compute_capability", "of the NVIDIA GPU: 9.0 for Hopper, 10.0 for B200, 12.0 for RTX 50", float),
    Feature("runner", "model runner in force: v1 or v2 (vLLM)", str),
    Feature("enforce_eager", "no CUDA graphs", bool),
    Feature("prefix_caching", "prefix caching is on", bool),
    Feature("kv_connector", "an outer cache restores KV blocks (LMCache, HiCache ...)", bool),
    Feature("async_scheduling", "asynchronous (overlap) scheduling is on", bool),
    Feature("prompt_embeds", "requests may bring prompt embeddings", bool),
    Feature("structured_output", "requests use a grammar or schema", bool),
    Feature("tensor_parallel", "tensor-parallel size", int),
    Feature("pipeline_parallel", "pipeline-parallel size", int),
    Feature("data_parallel", "data-parallel size", int),
    Feature("temperature", "sampling temperature of the traffic", float),
    Feature("draft_sample_method", "greedy or probabilistic; unset where it is left to the engine", str),
    Feature("rejection_sample_method", "standard, block, synthetic, fly", str),
    Feature("kv_cache_dtype", "of the target's cache: auto, bfloat16, fp8, fp8_e4m3 ...", str),
    Feature("dtype", "compute type of the target", str),
    Feature("target_attention_backend", "of the target, upper case: FLASH_ATTN, TRITON_MLA ...", str),
    Feature("draft_attention_backend", "of the drafter, upper case", str),
    Feature("draft_causal", "every drafter layer is causal inside the block", bool),
    Feature("draft_sliding", "some drafter layer has a sliding window", bool),
    Feature("draft_mixed_layers", "the drafter has windowed and full layers", bool),
    Feature("draft_gqa_differs", "query heads per KV head differ between target and drafter", bool),
    Feature("draft_vocab_reduced", "the drafter says only part of the target's tokens", bool),
    Feature("draft_vocab_padded", "drafter and target vocabularies differ in size", bool),
    Feature("draft_own_head", "the drafter's files hold an output head", bool),
    Feature("draft_selector", "the drafter has a candidate selector (DFlash2)", bool),
    Feature("draft_conv", "the drafter has convolutions (DFlash2)", bool),
    Feature("draft_quantized", "the drafter's weights are quantised", bool),
    Feature("taps_stated", "the drafter's config names its target layers where the engine looks", bool),
    Feature("target_family", "model_type of the target: qwen3, gemma4, mimo_v2 ...", str),
    Feature("target_quantized", "the target's weights are quantised", bool),
    Feature("target_head_quantized", "the target's output head is quantised", bool),
    Feature("target_rotated", "the target's quantisation rotates its features", bool),
    Feature("target_mla", "the target has multi-head latent attention", bool),
    Feature("hybrid_target", "the target keeps a running state (linear attention, state space)", bool),
    Feature("target_moe", "the target has routed experts", bool),
    Feature("rope_extended", "the served length goes past the drafter's own limit", bool),
    Feature("partial_rotary", "the drafter's config has a partial_rotary_factor other than 1", bool),
)

BY_NAME: dict[str, Feature] = {item.name: item for item in FEATURES}


def misfits(features: dict[str, Any]) -> tuple[str, ...]:
    """What is wrong with a table of features: unknown names, values of another type."""
    wrong = [f"unknown feature {name}" for name in features if name not in BY_NAME]
    for name, value in features.items():
        kind = BY_NAME[name].type if name in BY_NAME else object
        fits = isinstance(value, (int, float) if kind is float else kind)
        if not fits or (isinstance(value, bool) and kind in (int, float)):
            wrong.append(f"{name} is {value!r}, not {kind.__name__}")
    return tuple(wrong)
