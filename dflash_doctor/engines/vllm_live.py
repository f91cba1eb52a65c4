"""Reads from a live vLLM model runner what the pair really uses: plain JSON values, never an exception.

A field that this vLLM version does not have is left out; `unreadable` lists the ones that failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_DRAFT_CONFIG_KEYS = (
    "architectures",
    "model_type",
    "block_size",
    "dflash_config",
    "num_hidden_layers",
    "num_target_layers",
    "hidden_size",
    "head_dim",
    "vocab_size",
    "draft_vocab_size",
    "layer_types",
    "sliding_window",
    "rope_parameters",
    "rope_theta",
    "max_position_embeddings",
    "is_causal",
    "mask_token_id",
    "target_layer_ids",
    "eagle_aux_hidden_state_layer_ids",
)


def live_facts(runner: Any) -> dict[str, Any]:
    """Facts of one runner, keyed by the field names of `EngineFacts` where they agree."""
    facts: dict[str, Any] = {}
    unreadable: dict[str, str] = {}
    for name, read in _READERS.items():
        try:
            value = _plain(read(runner))
        except Exception as error:
            unreadable[name] = f"{type(error).__name__}: {error}"
            continue
        if value is not None:
            facts[name] = value
    if unreadable:
        facts["unreadable"] = unreadable
    return facts


def _runner_class(runner: Any) -> str:
    return f"{type(runner).__module__}.{type(runner).__name__}"


def _runner_generation(runner: Any) -> str:
    return "v1" if hasattr(runner, "input_batch") else "v2"


def _draft_config(runner: Any) -> dict[str, Any] | None:
    speculation = runner.vllm_config.speculative_config
    if speculation is None or speculation.draft_model_config is None:
        return None
    config = speculation.draft_model_config.hf_config.to_dict()
    return {key: config[key] for key in _DRAFT_CONFIG_KEYS if config.get(key) is not None}


def _drafter(runner: Any) -> Any:
    found = getattr(runner, "drafter", None)
    return found if found is not None else getattr(runner, "speculator", None)


def _drafter_class(runner: Any) -> str | None:
    drafter = _drafter(runner)
    return None if drafter is None else type(drafter).__name__


def _draft_model(runner: Any) -> Any:
    return getattr(_drafter(runner), "model", None)


def _aux_layers(runner: Any) -> list[int] | None:
    model = runner.get_model()
    inner = getattr(model, "model", model)
    layers = getattr(inner, "aux_hidden_state_layers", None)
    return list(layers) if layers else None


def _lm_head_shared(runner: Any) -> bool | None:
    draft = _draft_model(runner)
    if draft is None or not hasattr(draft, "lm_head"):
        return None
    return _same_weights(draft.lm_head, runner.get_model().lm_head)


def _embedding_shared(runner: Any) -> bool | None:
    draft = _draft_model(runner)
    inner = getattr(draft, "model", None)
    if inner is None or not hasattr(inner, "embed_tokens"):
        return None
    return _same_weights(inner.embed_tokens, runner.get_model().model.embed_tokens)


def _same_weights(left: Any, right: Any) -> bool:
    return left is right or left.weight.data_ptr() == right.weight.data_ptr()


def _draft_causal(runner: Any) -> list[bool] | None:
    draft = _draft_model(runner)
    return None if draft is None else list(draft.get_draft_attn_causal())


def _attention(runner: Any) -> dict[str, str]:
    """Attention implementation by layer name, target and draft together."""
    layers = runner.vllm_config.compilation_config.static_forward_context
    return {name: type(layer.impl).__name__ for name, layer in layers.items() if hasattr(layer, "impl")}


def _draft_layer_names(runner: Any) -> list[str] | None:
    """Names of the attention layers that are modules of the drafter."""
    draft = _draft_model(runner)
    if draft is None:
        return None
    inside = {id(module) for module in draft.modules()}
    layers = runner.vllm_config.compilation_config.static_forward_context
    return sorted(name for name, layer in layers.items() if id(layer) in inside)


def _mask_token_id(runner: Any) -> int | None:
    return getattr(_drafter(runner), "parallel_drafting_token_id", None)


_READERS: dict[str, Callable[[Any], Any]] = {
    "runner": _runner_class,
    "runner_generation": _runner_generation,
    "device": lambda runner: str(runner.device),
    "draft_config": _draft_config,
    "drafter": _drafter_class,
    "draft_class": lambda runner: type(_draft_model(runner)).__name__ if _draft_model(runner) else None,
    "target_class": lambda runner: type(runner.get_model()).__name__,
    "aux_hidden_state_layers": _aux_layers,
    "lm_head_shared": _lm_head_shared,
    "embedding_shared": _embedding_shared,
    "draft_layers_causal": _draft_causal,
    "attention": _attention,
    "draft_layer_names": _draft_layer_names,
    "mask_token_id": _mask_token_id,
}


def _plain(value: Any) -> Any:
    """The value with everything that is not JSON turned into text."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return str(value)
