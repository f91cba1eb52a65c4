"""Reads a drafter's or a target's config into the normal form: every field with the path it came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from dflash_doctor.checkpoints.dialects.base import Paths
from dflash_doctor.checkpoints.dialects.catalog import dialect_of
from dflash_doctor.checkpoints.json_file import JsonFile
from dflash_doctor.checkpoints.quantization import read_quantization
from dflash_doctor.contract.pair import DraftConfig, Problem, TargetConfig

_ConfigT = TypeVar("_ConfigT", DraftConfig, TargetConfig)

_POSITIVE = frozenset(
    {
        "hidden_size", "intermediate_size", "num_layers", "num_heads", "num_kv_heads", "head_dim",
        "vocab_size", "draft_vocab_size", "target_hidden_size", "num_target_layers", "block_size",
        "proposed_tokens", "sliding_window", "swa_window_size", "rope_theta", "nested_rope_theta",
        "max_position_embeddings",
    }
)  # fmt: skip
_INNER = ("text_config", "llm_config", "language_config", "thinker_config.text_config")
_TARGET_FIELDS: dict[str, Paths] = {
    **{
        name: (name,)
        for name in (
            "model_type", "hidden_size", "head_dim", "vocab_size", "layer_types", "max_position_embeddings",
            "rope_theta", "tie_word_embeddings", "final_logit_softcapping", "kv_lora_rank",
            "rope_interleaved",
        )
    },
    "architecture": ("architectures.0",),
    "num_layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "num_heads": ("num_attention_heads", "n_head"),
    "num_kv_heads": ("num_key_value_heads",),
    "nested_rope_theta": ("rope_parameters.rope_theta", "rope_scaling.rope_theta"),
    "partial_rotary_factor": ("rope_parameters.partial_rotary_factor", "partial_rotary_factor"),
    "dtype": ("dtype", "torch_dtype"),
}  # fmt: skip
_RECURRENT_MARKS = ("linear_attention", "mamba", "gated_delta", "recurrent", "ssm", "rwkv")
_SCALED_FAMILIES = ("gemma",)
_INTERLEAVED_FAMILIES = ("glm4", "glm-4", "glm_moe", "glm5", "deepseek", "chatglm", "cohere", "ernie4")
"""Families that rotate neighbouring pairs; a hint, never a verdict."""


def draft_config(file: JsonFile) -> tuple[DraftConfig | None, tuple[Problem, ...]]:
    """The drafter's config in normal form, and fields that are not what they should be."""
    if file.value is None:
        return None, ()
    dialect = dialect_of(file.value)
    config, problems = _fill(
        DraftConfig, file, dialect.paths(), {"dialect": dialect.name, "native": dialect.native}
    )
    inner = "transformer_layer_config" if "transformer_layer_config" in file.value else ""
    quantization = read_quantization(file.value, (inner,))
    return msgspec.structs.replace(config, quantization=quantization), problems


def target_config(file: JsonFile) -> tuple[TargetConfig | None, tuple[Problem, ...]]:
    """The target's config in normal form (of a multimodal one the text part)."""
    raw = file.value
    if raw is None:
        return None, ()
    inner = next((path for path in _INNER if isinstance(lookup(raw, path), dict)), None)
    paths = {
        name: (tuple(f"{inner}.{item}" for item in items) + items) if inner else items
        for name, items in _TARGET_FIELDS.items()
    }
    paths["architecture"] = ("architectures.0",)
    config, problems = _fill(TargetConfig, file, paths, {})
    kinds = " ".join(
        [*(config.layer_types or ()), config.model_type or "", config.architecture or ""]
    ).lower()
    family = f"{config.model_type} {config.architecture}".lower()
    config = msgspec.structs.replace(
        config,
        quantization=read_quantization(raw, ("", inner or "")),
        is_recurrent=any(mark in kinds for mark in _RECURRENT_MARKS) or _has_linear_layers(raw, inner),
        scales_embedding=any(name in family for name in _SCALED_FAMILIES),
        interleaved_family=any(name in family for name in _INTERLEAVED_FAMILIES),
    )
    return config, problems


def lookup(raw: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, else `None`; a key that holds the dots itself comes first."""
    if path in raw:
        return raw[path]
    place: Any = raw
    for part in path.split("."):
        if isinstance(place, dict):
            place = place.get(part)
        elif isinstance(place, list) and part.isdigit() and int(part) < len(place):
            place = place[int(part)]
        else:
            return None
    return place


def _fill(
    kind: type[_ConfigT], file: JsonFile, paths: Mapping[str, Paths], known: Mapping[str, Any]
) -> tuple[_ConfigT, tuple[Problem, ...]]:
    types = {item.name: item.type for item in msgspec.structs.fields(kind)}
    assert file.value is not None, "the caller looked"
    values: dict[str, Any] = dict(known)
    sources: dict[str, str] = {}
    problems = []
    for name, candidates in paths.items():
        path = next((item for item in candidates if lookup(file.value, item) is not None), None)
        if path is None:
            continue
        stated = lookup(file.value, path)
        sources[name] = path
        try:
            values[name] = _converted(name, stated, types[name])
        except ValueError as error:
            problems.append(
                Problem(
                    severity="error",
                    file=str(file.path),
                    what=f"{path} is not what it should be",
                    seen=str(error),
                    remedy="restore the value from the original release",
                    field=path,
                    line=line_of(file.lines, path),
                )
            )
    return kind(sources=sources, **values), tuple(problems)


def line_of(lines: Mapping[str, int], path: str) -> int | None:
    """Line of a key path; entries of a list have the line of the list."""
    while path:
        if path in lines:
            return lines[path]
        path = path.rpartition(".")[0]
    return None


def _converted(name: str, value: Any, kind: Any) -> Any:
    """The value in the field's type.

    Raises:
        ValueError: another type, or a size that is not positive; `msgspec.ValidationError` is one too.
    """
    if name == "mask_token_id" and isinstance(value, list) and value:
        value = value[0]
    converted = msgspec.convert(value, kind)
    if name in _POSITIVE and not converted > 0:
        raise ValueError(f"{value!r}; it must be above zero")
    return converted


def _has_linear_layers(raw: Mapping[str, Any], inner: str | None) -> bool:
    """Hybrid targets without `layer_types` tell it by the sizes of their linear-attention layers."""
    place = lookup(raw, inner) if inner else raw
    return isinstance(place, dict) and any(key.startswith(("linear_num_", "mamba_", "ssm_")) for key in place)
