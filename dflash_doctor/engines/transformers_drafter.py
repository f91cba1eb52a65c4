"""Loads a z-lab DFlash drafter into the class that Transformers' own DFlash generation takes.

Transformers ships one drafter class, `MuseGlimmerAssistantModel`. Its layers are those of z-lab's drafters;
two tensors and the place of three config fields differ. It runs every layer bidirectionally and applies
the target's head as it is, so what a config asks for beyond that is listed in `LoadedDrafter.differences`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dflash_doctor.checkpoints.config import drafted_tokens, read_config
from dflash_doctor.errors import EngineError, EngineMissingError, UsageError

_RENAMED = {
    "fc.weight": "encoder.fc.weight",
    "hidden_norm.weight": "encoder.output_norm_enc.weight",
}
_REQUIRED = ("block_size", "mask_token_id", "target_layer_ids")
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
_NEUTRAL = {"output_multiplier": 1.0, "input_embedding_scale": 1.0, "final_logit_softcapping": None}
"""Fields that z-lab's own code honours and Transformers does not, with the value that changes nothing."""


@dataclass(frozen=True, kw_only=True)
class LoadedDrafter:
    """A drafter ready for Transformers' generation."""

    model: Any
    block_size: int
    """From the config; the model's own is K + 1."""
    differences: tuple[str, ...]
    """What the config asks for and Transformers does otherwise."""

    @property
    def num_spec_tokens(self) -> int:
        """K: Transformers drafts one token less than the block it is given."""
        return int(self.model.config.block_size) - 1


def load_drafter(draft: str, *, num_speculative_tokens: int | None, dtype: Any) -> LoadedDrafter:
    """The drafter as a Transformers model, every tensor accounted for.

    Args:
        draft: folder of a z-lab checkpoint, or a hub id, which is downloaded.
        num_speculative_tokens: K; `None` for block_size - 1.
        dtype: torch dtype to load into.

    Raises:
        UsageError: the config lacks a DFlash field or does not fit the class, or there are no weights.
        EngineError: a tensor is missing, left over or misshapen.
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
    folder = _local_folder(draft)
    config = require_drafter_config(folder)
    assert config is not None, "a local folder has a config"
    fields = _assistant_fields(config)
    block_size = fields["block_size"]
    if num_speculative_tokens is not None:
        fields["block_size"] = num_speculative_tokens + 1
    try:
        model: Any = MuseGlimmerAssistantModel(MuseGlimmerAssistantConfig(**fields))
    except Exception as error:  # Transformers' checks of a config raise classes of their own
        raise UsageError(
            "the draft config does not fit Transformers' DFlash class",
            seen=f"{folder}/config.json: {type(error).__name__}: {error}",
            remedy="correct the config, or use another engine",
        ) from error
    wanted = model.state_dict()
    tensors = {_RENAMED.get(name, name): tensor for name, tensor in _tensors(folder).items()}
    _require_same(wanted, tensors, folder)
    model.load_state_dict(tensors)
    return LoadedDrafter(
        model=model.to(dtype).eval(), block_size=block_size, differences=_differences(config, fields)
    )


def require_fits(drafter: LoadedDrafter, target: Any) -> None:
    """Raise unless the drafter can run on this target's hidden states, embedding and head.

    Raises:
        UsageError: a tap, the width or the mask token lies outside the target.
    """
    draft, own = drafter.model.config, target.config.get_text_config()
    rows = target.get_input_embeddings().weight.shape[0]
    outside = [index for index in draft.target_layer_ids if not 0 <= index < own.num_hidden_layers]
    misfits = []
    if outside:
        misfits.append(f"target_layer_ids {outside} of a target with {own.num_hidden_layers} layers")
    if draft.hidden_size != own.hidden_size:
        misfits.append(f"hidden_size {draft.hidden_size}, the target's is {own.hidden_size}")
    if not 0 <= draft.mask_token_id < rows:
        misfits.append(f"mask_token_id {draft.mask_token_id}, the target's embedding has {rows} rows")
    if misfits:
        raise UsageError(
            "the drafter does not fit the target",
            seen="; ".join(misfits),
            remedy="name the drafter that was trained for this target",
        )


def require_drafter_config(draft: str) -> dict[str, Any] | None:
    """The config of a DFlash drafter in z-lab's layout; `None` for a hub id, which is not read here.

    Raises:
        UsageError: the config is unreadable or another kind of drafter's.
    """
    config = read_config(draft)
    if config is None:
        return None
    if "speculators_model_type" in config:
        raise UsageError(
            "the transformers engine does not read drafters in the speculators layout",
            seen=f"{draft}/config.json: speculators_model_type {config['speculators_model_type']}",
            remedy="use --engine vllm, or the drafter in z-lab's layout",
        )
    absent = [name for name in _REQUIRED if _field(config, name) is None]
    if "block_size" not in absent and drafted_tokens(draft, reader="transformers") is None:
        absent.append("block_size")  # there, and no positive whole number
    if absent:
        raise UsageError(
            "the draft model is no DFlash drafter",
            seen=f"{draft}/config.json has no usable {', '.join(absent)}",
            remedy="name a DFlash drafter, or another engine for other methods",
        )
    return config


def _local_folder(draft: str) -> str:
    """The folder itself, or a hub id's files downloaded by the hub's own client."""
    if Path(draft).is_dir():
        return draft
    from huggingface_hub import snapshot_download

    try:
        return str(snapshot_download(draft, allow_patterns=["*.json", "*.safetensors"]))
    except Exception as error:  # the client raises its own classes, and those of its transport
        raise UsageError(
            "the draft model cannot be downloaded",
            seen=f"{draft}: {type(error).__name__}: {error}",
            remedy="check the name and the network, or name a folder",
        ) from error


def _field(config: dict[str, Any], name: str) -> Any:
    """A DFlash field of a z-lab config: `block_size` at top level first, the others nested first."""
    nested = config.get("dflash_config")
    places = [nested if isinstance(nested, dict) else {}, config]
    if name == "block_size":
        places.reverse()
    values = (place.get(name) for place in places)
    return next((value for value in values if value is not None), None)


def _assistant_fields(config: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {key: config[key] for key in _COPIED if config.get(key) is not None}
    fields |= {name: _field(config, name) for name in _REQUIRED}
    if "layer_types" not in fields:
        # The class would take sliding windows for granted, z-lab's layout full attention.
        fields["layer_types"] = ["full_attention"] * int(fields.get("num_hidden_layers", 0))
    fields["rope_parameters"] = _rope_parameters(config)
    fields["sliding_window"] = config.get("sliding_window") or config.get("max_position_embeddings")
    return {key: value for key, value in fields.items() if value is not None}


def _rope_parameters(config: dict[str, Any]) -> dict[str, Any]:
    """As Transformers 5 writes them, from either form; what stands inside wins over a top-level theta."""
    given = config.get("rope_parameters") or config.get("rope_scaling")
    found = dict(given) if isinstance(given, dict) else {}
    found.setdefault("rope_type", found.pop("type", "default"))
    found.setdefault("rope_theta", config.get("rope_theta", 1e4))
    return found


def _differences(config: dict[str, Any], fields: dict[str, Any]) -> tuple[str, ...]:
    """What Transformers does otherwise than z-lab's own code with this config."""
    found = []
    causal = config.get("is_causal")
    if causal is None:
        causal = _field(config, "causal")
    for index, kind in enumerate(fields["layer_types"]):
        # z-lab: a sliding layer is causal unless the config says otherwise.
        if causal if causal is not None else kind == "sliding_attention":
            found.append(f"layer {index} is causal in the config and bidirectional here")
    for name, neutral in _NEUTRAL.items():
        value = _field(config, name)
        if value is not None and value != neutral:
            found.append(f"{name}={value} is not applied")
    return tuple(found)


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
            raise EngineError(
                f"a tensor of the drafter is {words}",
                seen=f"{folder}: {', '.join(names[:3])} ({len(names)} in all)",
                remedy="name the checkpoint that belongs to this config",
            )
