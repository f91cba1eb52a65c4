"""Counts a drafter's tensors off against those that its family has."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dflash_doctor.checkpoints.dialects.base import FUSED
from dflash_doctor.checkpoints.dialects.catalog import dialect_called
from dflash_doctor.contract.pair import DraftConfig, Tensor, TensorCensus

_LAYER = re.compile(r"^layers\.(\d+)\.")
_MAX_NAMED = 20
_MAX_LAYERS = 512
"""No drafter has so many; a config that claims more is not expanded."""


def take_census(config: DraftConfig, tensors: Sequence[Tensor] | None) -> TensorCensus | None:
    """What is there, missing, and loaded by nobody; `None` where the family's tensors are not known."""
    names = dialect_called(config.dialect).tensors
    if names is None or tensors is None or config.num_layers is None or config.num_layers > _MAX_LAYERS:
        return None
    held = [item.name.removeprefix("model.") for item in tensors]
    required = _expanded(names.required, config.num_layers)
    optional = _expanded(names.optional, config.num_layers)
    present = {module for name in held for module in _modules(name)}
    missing = [item for item in required if item not in present and _fused(item) not in present]
    allowed = {*required, *optional, *(_fused(item) for item in required)}
    unknown = [name for name in held if not any(module in allowed for module in _modules(name))]
    layers = [int(match.group(1)) for name in held if (match := _LAYER.match(name))]
    return TensorCensus(
        num_expected=len(required),
        num_layers=max(layers) + 1 if layers else None,
        missing=tuple(missing[:_MAX_NAMED]),
        unknown=tuple(unknown[:_MAX_NAMED]),
        misshapen=tuple(_misshapen(config, tensors))[:_MAX_NAMED],
    )


def _expanded(patterns: Sequence[str], num_layers: int) -> list[str]:
    found = []
    for pattern in patterns:
        layers = range(num_layers) if "{i}" in pattern else (0,)
        found += [pattern.replace("{i}", str(index)) for index in layers]
    return found


def _modules(name: str) -> list[str]:
    """Every module that a tensor may belong to: its name, and all that precede a dot in it."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _fused(module: str) -> str:
    for single, fused in FUSED.items():
        if module.endswith(single):
            return module.removesuffix(single) + fused
    return module


def _misshapen(config: DraftConfig, tensors: Sequence[Tensor]) -> list[tuple[str, str, str]]:
    """Plain float tensors whose shape is not what the config's sizes give."""
    wanted = _shapes(config)
    found = []
    for tensor in tensors:
        name = tensor.name.removeprefix("model.")
        key = _LAYER.sub("", name)
        expected = wanted.get(key)
        if expected is None or tensor.dtype not in ("BF16", "F16", "F32") or None in expected:
            continue
        if tensor.shape != expected:
            found.append((tensor.name, str(list(tensor.shape)), str(list(expected))))
    return found


def _shapes(config: DraftConfig) -> dict[str, tuple[int | None, ...]]:
    hidden, inner, heads, size = (
        config.hidden_size,
        config.intermediate_size,
        config.num_heads,
        config.head_dim,
    )
    if size is None and hidden is not None and heads is not None and hidden % heads == 0:
        size = hidden // heads
    kv_heads = config.num_kv_heads if config.num_kv_heads is not None else heads
    queries = heads * size if heads is not None and size is not None else None
    keys = kv_heads * size if kv_heads is not None and size is not None else None
    return {
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "self_attn.q_norm.weight": (size,),
        "self_attn.k_norm.weight": (size,),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "norm.weight": (hidden,),
        "hidden_norm.weight": (hidden,),
        "lm_head.weight": (config.draft_vocab_size or config.vocab_size, hidden),
    }
