"""What the drafter's arithmetic depends on, read from a z-lab style config.json.

Readers differ on where a field stands, so places are searched in z-lab's order: `dflash_config`, then the top
level. A config that asks for arithmetic this drafter does not do is refused: silently doing something else
would make every comparison with an engine meaningless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dflash_doctor.checkpoints.config import read_config
from dflash_doctor.checkpoints.semantics.read import guessed_taps
from dflash_doctor.errors import UsageError

_DEFAULT_BLOCK_SIZE = 16
_DEFAULT_ROPE_THETA = 1e4
_DEFAULT_EPS = 1e-6
"""What z-lab's code takes where a config is silent."""

_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "attention_bias": (None, False),
    "hidden_act": (None, "silu"),
    "is_causal": (None, False),
    "use_sliding_window": (None, False),
    "rope_scaling": (None,),
    "output_multiplier": (None, 1, 1.0),
    "input_embedding_scale": (None, 1, 1.0),
    "final_logit_softcapping": (None,),
}
"""Top-level fields that change the arithmetic, and the values under which they do not."""

_NEUTRAL_NESTED: Mapping[str, tuple[object, ...]] = {
    "causal": (None, False),
    "is_causal": (None, False),
    "use_swa": (None, False),
    "sample_from_anchor": (None, False),
    "projector_type": (None,),
    "conv_kernel_size": (None,),
    "selector_rank": (None,),
}
"""The same inside `dflash_config`; the last three mark relatives of DFlash that have other tensors."""


@dataclass(frozen=True, kw_only=True)
class DrafterConfig:
    """Sizes, constants and taps of one drafter."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    block_size: int
    """Slots of a block, the anchor included: block_size - 1 tokens are drafted."""
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    """id i is the output of target layer i, which is `hidden_states[i + 1]` in Transformers."""


def read_drafter_config(folder: str | Path) -> DrafterConfig:
    """The config of a z-lab checkpoint; `rope_parameters` wins over a top-level `rope_theta`.

    Raises:
        UsageError: no such folder, a field is missing or not a number, or the config asks for arithmetic that
            this drafter does not do.
    """
    raw = read_config(folder)
    if raw is None:
        raise UsageError(
            "the drafter's folder does not exist", seen=str(folder), remedy="name a folder with a config.json"
        )
    nested, rope = _object(raw, "dflash_config", folder), _object(raw, "rope_parameters", folder)
    _refuse_other_arithmetic(raw, nested, rope, Path(folder))

    def field(name: str, default: Any = None) -> Any:
        for place in (nested, raw):
            if place.get(name) is not None:
                return place[name]
        if default is None:
            raise UsageError(
                "the draft config lacks a field",
                seen=f"{folder}/config.json: no {name}, neither in dflash_config nor at top level",
                remedy="name a DFlash checkpoint in z-lab's layout",
            )
        return default

    try:
        num_layers, heads = int(field("num_hidden_layers")), int(field("num_attention_heads"))
        hidden = int(field("hidden_size"))
        taps = nested.get("target_layer_ids") or raw.get("target_layer_ids")
        return DrafterConfig(
            hidden_size=hidden,
            intermediate_size=int(field("intermediate_size")),
            num_layers=num_layers,
            num_heads=heads,
            num_kv_heads=int(field("num_key_value_heads", heads)),
            head_dim=int(field("head_dim", hidden // heads)),
            rms_norm_eps=float(field("rms_norm_eps", _DEFAULT_EPS)),
            rope_theta=float(rope.get("rope_theta") or raw.get("rope_theta") or _DEFAULT_ROPE_THETA),
            block_size=int(field("block_size", _DEFAULT_BLOCK_SIZE)),
            mask_token_id=int(field("mask_token_id")),
            target_layer_ids=(
                tuple(int(index) for index in taps)
                if taps
                else guessed_taps(num_layers, int(field("num_target_layers")))
            ),
        )
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise UsageError(
            "a field of the draft config is not what it should be",
            seen=f"{folder}/config.json: {error}",
            remedy="correct the config",
        ) from error


def _object(raw: Mapping[str, Any], name: str, folder: str | Path) -> Mapping[str, Any]:
    """A nested object of the config; empty when it is absent or null."""
    value = raw.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UsageError(
            "a field of the draft config is not what it should be",
            seen=f"{folder}/config.json: {name} is a JSON {type(value).__name__}, not an object",
            remedy="correct the config",
        )
    return value


def _refuse_other_arithmetic(
    raw: Mapping[str, Any], nested: Mapping[str, Any], rope: Mapping[str, Any], folder: Path
) -> None:
    asked = [f"{name}={raw[name]!r}" for name, fine in _NEUTRAL.items() if raw.get(name) not in fine]
    asked += [
        f"dflash_config.{name}={nested[name]!r}"
        for name, fine in _NEUTRAL_NESTED.items()
        if nested.get(name) not in fine
    ]
    kinds = sorted(set(raw.get("layer_types") or ()) - {"full_attention"})
    if kinds:
        asked.append(f"layer_types with {', '.join(map(str, kinds))}")
    if rope.get("rope_type", "default") != "default":
        asked.append(f"rope_parameters.rope_type={rope['rope_type']!r}")
    names = raw.get("architectures") or ["DFlashDraftModel"]
    if names != ["DFlashDraftModel"]:
        asked.append(f"architectures={names!r}")
    if asked:
        raise UsageError(
            "the reference drafter does not do what this draft config asks for",
            seen=f"{folder / 'config.json'}: {'; '.join(asked)}",
            remedy="the reference runs DFlashDraftModel with full, bidirectional attention and plain rotary "
            "embedding; leave the reference out for this drafter",
        )
