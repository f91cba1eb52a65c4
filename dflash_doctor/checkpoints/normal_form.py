"""Reads a drafter's or a target's config into the normal form: every field with the path it came from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from dflash_doctor.checkpoints.dialects.base import Paths
from dflash_doctor.checkpoints.dialects.catalog import dialect_of
from dflash_doctor.checkpoints.files import shown
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
_COUNTED = frozenset({"num_layers", "num_target_layers"})
"""Fields of which one entry per layer is made."""
_MAX_LAYERS = 10_000
"""The deepest models have some hundred."""
_MAX_ENTRIES = 10_000
_MAX_TEXT = 1000
_INT64 = 2**63
_OBJECTS = (
    "dflash_config", "eagle_config", "transformer_layer_config", "speculators_config", "text_config",
    "rope_parameters", "rope_scaling", "quantization_config", "transformer_layer_config.rope_parameters",
    "transformer_layer_config.rope_scaling", "text_config.rope_parameters",
)  # fmt: skip
"""Keys that hold an object wherever they are stated; anything else in them would read as nothing."""
_OF_SPECULATORS = "speculators_model_type"
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
    "nested_rope_theta": (
        "rope_parameters.rope_theta", "rope_parameters.full_attention.rope_theta", "rope_scaling.rope_theta",
    ),
    "partial_rotary_factor": ("rope_parameters.partial_rotary_factor", "partial_rotary_factor"),
    "dtype": ("dtype", "torch_dtype"),
}  # fmt: skip
_GGUF_FIELDS = {
    "hidden_size": "embedding_length", "num_layers": "block_count", "num_heads": "attention.head_count",
    "num_kv_heads": "attention.head_count_kv", "head_dim": "attention.key_length",
    "vocab_size": "vocab_size", "max_position_embeddings": "context_length",
    "rope_theta": "rope.freq_base", "final_logit_softcapping": "final_logit_softcapping",
}  # fmt: skip
"""In GGUF metadata behind the name of the architecture."""
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
    if dialect.name != "gguf":
        problems += _two_values(file, dialect.paths())
    if isinstance(file.value.get(_OF_SPECULATORS), str) and not inner:
        problems += (_no_decoder(file),)
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
    gguf = raw.get("general.architecture")
    if isinstance(gguf, str):
        paths = {name: (f"{gguf}.{key}",) for name, key in _GGUF_FIELDS.items()}
        paths["architecture"] = paths["model_type"] = ("general.architecture",)
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
    problems = _no_objects(file)
    for name, candidates in paths.items():
        path = next((item for item in candidates if lookup(file.value, item) is not None), None)
        if path is None:
            continue
        stated = lookup(file.value, path)
        sources[name] = path
        try:
            values[name] = _converted(name, stated, types[name])
        except ValueError as error:
            problems.append(_unfit(file, path, str(error)))
    return kind(sources=sources, **values), tuple(problems)


def _two_values(file: JsonFile, paths: Mapping[str, Paths]) -> tuple[Problem, ...]:
    """Keys of one name that stand in two places with two values: engines differ in which they take."""
    assert file.value is not None, "the caller looked"
    problems = []
    for name, candidates in paths.items():
        stated = [(path, lookup(file.value, path)) for path in candidates]
        stated = [(path, value) for path, value in stated if isinstance(value, bool | int | float | str)]
        same = [path for path, _ in stated if path.rpartition(".")[2] == name]
        values = [value for path, value in stated if path in same]
        if len(values) < 2 or all(value == values[0] for value in values):
            continue
        problems.append(
            Problem(
                severity="warning",
                file=shown(file.path, 4096),
                what=f"{name} stands in two places with two values",
                seen=shown("; ".join(f"{path} {value}" for path, value in zip(same, values, strict=True))),
                remedy="write the trained value into both: engines differ in which one they take",
                field=same[0],
                line=line_of(file.lines, same[0]),
            )
        )
    return tuple(problems)


def _no_decoder(file: JsonFile) -> Problem:
    return Problem(
        severity="error",
        file=shown(file.path, 4096),
        what="the sizes of the drafter's layers are missing",
        seen="speculators keeps them in transformer_layer_config, and there is none",
        remedy="restore the file from the original release",
        field=_OF_SPECULATORS,
        line=line_of(file.lines, _OF_SPECULATORS),
    )


def _no_objects(file: JsonFile) -> list[Problem]:
    """Keys whose value should be an object (or a list of class names) and is something else."""
    assert file.value is not None, "the caller looked"
    problems = []
    for path in _OBJECTS:
        value = lookup(file.value, path)
        if value is not None and not isinstance(value, dict):
            problems.append(_unfit(file, path, f"Expected `object`, got `{type(value).__name__}`"))
    names = file.value.get("architectures")
    if names is not None and not isinstance(names, list):
        problems.append(_unfit(file, "architectures", f"Expected `array`, got `{type(names).__name__}`"))
    return problems


def _unfit(file: JsonFile, path: str, seen: str) -> Problem:
    return Problem(
        severity="error",
        file=shown(file.path, 4096),
        what=f"{path} is not what it should be",
        seen=shown(seen),
        remedy="restore the value from the original release",
        field=path,
        line=line_of(file.lines, path),
    )


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
        ValueError: another type, a size that is not positive, a number or text that no config has;
            `msgspec.ValidationError` is one too.
    """
    if name == "mask_token_id" and isinstance(value, list) and value:
        value = value[0]
    converted = msgspec.convert(value, kind)
    if name in _POSITIVE and not converted > 0:
        raise ValueError(f"{value!r}; it must be above zero")
    entries = converted if isinstance(converted, tuple) else (converted,)
    if len(entries) > _MAX_ENTRIES:
        raise ValueError(f"{len(entries):,} entries; at most {_MAX_ENTRIES:,} are read")
    for item in entries:
        _require_storable(item)
    if name in _COUNTED and converted > _MAX_LAYERS:
        raise ValueError(f"{value!r}; at most {_MAX_LAYERS:,} layers are read")
    return converted


def _require_storable(value: Any) -> None:
    """No infinity, no number beyond 64 bits, no endless text: nothing of a model is like that."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value!r}; it must be a finite number")
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise ValueError(f"a number of {value.bit_length()} bits")
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        raise ValueError(f"a text of {len(value):,} characters")


def _has_linear_layers(raw: Mapping[str, Any], inner: str | None) -> bool:
    """Hybrid targets without `layer_types` tell it by the sizes of their linear-attention layers."""
    place = lookup(raw, inner) if inner else raw
    return isinstance(place, dict) and any(key.startswith(("linear_num_", "mamba_", "ssm_")) for key in place)
