"""Loads a z-lab DFlash drafter into the class that Transformers' own DFlash generation takes.

Transformers ships one drafter class, `MuseGlimmerAssistantModel`. Its layers are those of z-lab's drafters;
two tensors and the place of three config fields differ. It runs every layer bidirectionally.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dflash_doctor.checkpoints.config import read_config
from dflash_doctor.errors import EngineMissingError, UsageError

_RENAMED = {
    "fc.weight": "encoder.fc.weight",
    "hidden_norm.weight": "encoder.output_norm_enc.weight",
}
_COPIED = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "max_position_embeddings",
    "layer_types",
    "attention_dropout",
    "hidden_act",
)


def load_assistant(folder: str, *, num_speculative_tokens: int | None, dtype: Any) -> Any:
    """The drafter as a Transformers model, every tensor accounted for.

    Args:
        folder: a z-lab checkpoint.
        num_speculative_tokens: K; `None` for block_size - 1.
        dtype: torch dtype to load into.

    Raises:
        UsageError: the config lacks a DFlash field, or a tensor is missing, left over or misshapen.
        EngineMissingError: this Transformers has no DFlash.
    """
    try:
        from transformers import MuseGlimmerAssistantConfig, MuseGlimmerAssistantModel
    except ImportError as error:
        raise EngineMissingError(
            "the installed Transformers has no DFlash generation",
            seen=str(error),
            remedy="pip install 'dflash-doctor[reference]' (transformers 5.19 or later)",
        ) from error
    config = MuseGlimmerAssistantConfig(**_assistant_config(folder, num_speculative_tokens))
    model = MuseGlimmerAssistantModel(config)
    wanted = model.state_dict()
    tensors = {_RENAMED.get(name, name): tensor for name, tensor in _tensors(folder).items()}
    _require_same(wanted, tensors, folder)
    model.load_state_dict(tensors)
    return model.to(dtype).eval()


def dflash_field(config: dict[str, Any], name: str) -> Any:
    """A DFlash field of a z-lab config: nested first, then top level."""
    nested = config.get("dflash_config")
    value = nested.get(name) if isinstance(nested, dict) else None
    return config.get(name) if value is None else value


def _assistant_config(folder: str, num_speculative_tokens: int | None) -> dict[str, Any]:
    config = read_config(folder)
    if config is None:
        raise UsageError(
            "the transformers engine loads a drafter from a folder",
            seen=folder,
            remedy="download it and name the folder",
        )
    fields: dict[str, Any] = {key: config[key] for key in _COPIED if config.get(key) is not None}
    for name in ("mask_token_id", "target_layer_ids", "block_size"):
        value = dflash_field(config, name)
        if value is None:
            raise UsageError(
                "the draft model is no DFlash drafter",
                seen=f"{folder}/config.json has no {name}",
                remedy="name a DFlash drafter, or another engine for other methods",
            )
        fields[name] = value
    if num_speculative_tokens is not None:
        fields["block_size"] = num_speculative_tokens + 1
    theta = config.get("rope_theta", 1e4)
    fields["rope_parameters"] = config.get("rope_parameters") or {"rope_type": "default", "rope_theta": theta}
    fields["sliding_window"] = config.get("sliding_window") or config.get("max_position_embeddings")
    return fields


def _tensors(folder: str) -> dict[str, Any]:
    from safetensors.torch import load_file

    tensors: dict[str, Any] = {}
    files = sorted(Path(folder).glob("*.safetensors"))
    if not files:
        raise UsageError(
            "the draft model has no weights", seen=f"{folder}: no *.safetensors", remedy="name another"
        )
    for file in files:
        try:
            tensors.update(load_file(file))
        except Exception as error:  # safetensors raises its own class for a damaged file
            raise UsageError(
                "the draft weights cannot be read", seen=f"{file}: {error}", remedy="download them again"
            ) from error
    return tensors


def _require_same(wanted: dict[str, Any], tensors: dict[str, Any], folder: str) -> None:
    missing = sorted(wanted.keys() - tensors.keys())
    surplus = sorted(tensors.keys() - wanted.keys())
    misshapen = [
        f"{name} {tuple(tensors[name].shape)} instead of {tuple(wanted[name].shape)}"
        for name in sorted(wanted.keys() & tensors.keys())
        if tensors[name].shape != wanted[name].shape
    ]
    for words, names in (("missing", missing), ("unknown", surplus), ("of the wrong shape", misshapen)):
        if names:
            raise UsageError(
                f"a tensor of the drafter is {words}",
                seen=f"{folder}: {', '.join(names[:3])} ({len(names)} in all)",
                remedy="name the checkpoint that belongs to this config",
            )
