"""What the drafter's arithmetic depends on, from the normal form of its config under one reader's reading.

Readers differ on what a config means (`checkpoints/semantics`), so a reading must be named: an engine's, to
do what that engine should do, or the trainer's own. A config that asks for arithmetic which this drafter does
not do is refused: silently doing something else would make every comparison with an engine meaningless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dflash_doctor.checkpoints.json_file import JsonFile, read_json_object
from dflash_doctor.checkpoints.normal_form import draft_config, lookup
from dflash_doctor.checkpoints.semantics.read import read_as
from dflash_doctor.checkpoints.semantics.table import semantics_of
from dflash_doctor.contract.pair import DraftConfig, Problem, Reading, TargetConfig
from dflash_doctor.errors import UsageError

_DEFAULT_BLOCK_SIZE = 16
_DEFAULT_EPS = 1e-6
"""What z-lab's code takes where a config is silent."""

_DIALECTS = (
    "z-lab",
    "dflash2",
    "speculators-dflash",
    "speculators-dflash2",
    "muse-glimmer",
    "modelopt",
    "nemotron",
)
"""Families whose drafters are the plain decoder below, with or without DFlash2's additions."""
_DFLASH2 = ("dflash2", "speculators-dflash2")
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "attention_bias": (None, False),
    "hidden_act": (None, "silu"),
    "gating": (None, False),
}
"""Fields that change the arithmetic in ways this drafter does not follow, and their harmless values."""
_SCALINGS = ("default", "linear", "llama3", "yarn")
_REFUSED_MARKS = ("markov_rank", "projector_type")


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
    """Slots of a block, the anchor included."""
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    """id i is the output of target layer i, which is `hidden_states[i + 1]` in Transformers."""
    target_hidden_size: int | None = None
    """`None`: the drafter's own."""
    samples_from_anchor: bool = False
    """Whether slot j predicts the token after it (block_size drafts) or its own (block_size - 1)."""
    causal: tuple[bool, ...] | None = None
    """Per layer, inside the block; `None`: nowhere."""
    windows: tuple[int | None, ...] | None = None
    """Per layer: a query sees keys at a distance below this; `None`: all."""
    partial_rotary_factor: float = 1.0
    """Share of each head's dimensions that is rotated."""
    neox: bool = True
    """Halves are rotated against each other; else neighbouring pairs."""
    rope_scaling: Mapping[str, Any] = field(default_factory=dict)
    """`rope_parameters` as it stands, where its type is not the default."""
    max_position_embeddings: int | None = None
    embedding_scale: float = 1.0
    softcap: float | None = None
    output_multiplier: float = 1.0
    vocab_size: int | None = None
    """Of the target; DFlash2 has a code for each token."""
    conv_kernel_size: int | None = None
    conv_group_size: int | None = None
    selector_rank: int | None = None
    selector_top_k: int | None = None

    @property
    def num_draft_tokens(self) -> int:
        """Tokens one full block drafts."""
        return self.block_size if self.samples_from_anchor else self.block_size - 1

    @property
    def is_dflash2(self) -> bool:
        """Whether the drafter has a candidate selector behind its head."""
        return self.selector_rank is not None

    @property
    def rotated_dims(self) -> int:
        """Dimensions of a head that are rotated: even, at least two."""
        return max(2, int(self.head_dim * self.partial_rotary_factor) // 2 * 2)


def read_drafter_config(
    folder: str | Path, *, reader: str = "z-lab", target: TargetConfig | None = None
) -> DrafterConfig:
    """The config of a checkpoint as the reader called so takes it.

    Args:
        folder: holds config.json.
        reader: a line of the semantics table; `native` is the reader it was trained under.
        target: for taps that the file does not name.

    Raises:
        UsageError: no such folder, a field is missing or not a number, or the config asks for arithmetic that
            this drafter does not do.
    """
    place = Path(folder)
    if not place.is_dir():
        raise UsageError(
            "the drafter's folder does not exist", seen=str(folder), remedy="name a folder with a config.json"
        )
    file = read_json_object(place / "config.json")
    draft, problems = draft_config(file)
    errors = [problem for problem in (*file.problems, *problems) if problem.severity == "error"]
    if draft is None or errors:
        raise _unfit(place, errors)
    reading = read_as(semantics_of(draft.native if reader == "native" else reader), draft, target)
    return config_of(file, draft, reading)


def config_of(file: JsonFile, draft: DraftConfig, reading: Reading) -> DrafterConfig:
    """The arithmetic of a drafter under one reading.

    Raises:
        UsageError: as in `read_drafter_config`.
    """
    assert file.value is not None, "the normal form was read from it"
    raw, folder = file.value, file.path.parent
    inner = raw.get("transformer_layer_config")
    decoder = inner if isinstance(inner, dict) else raw
    scaling = _scaling(decoder)
    _refuse_other_arithmetic(draft, decoder, scaling, folder)

    def need(name: str) -> int:
        value: int | None = getattr(draft, name)
        if value is None:
            raise _lacks(folder, _SPELLED.get(name, name))
        return value

    num_layers, heads, hidden = need("num_layers"), need("num_heads"), need("hidden_size")
    if reading.taps is None:
        raise _lacks(folder, "target_layer_ids")
    block_size = draft.block_size if draft.block_size is not None else _DEFAULT_BLOCK_SIZE
    drafted = reading.num_draft_tokens
    return DrafterConfig(
        hidden_size=hidden,
        intermediate_size=need("intermediate_size"),
        num_layers=num_layers,
        num_heads=heads,
        num_kv_heads=draft.num_kv_heads or heads,
        head_dim=draft.head_dim or hidden // heads,
        rms_norm_eps=float(decoder.get("rms_norm_eps") or _DEFAULT_EPS),
        rope_theta=reading.rope_theta or 1e4,
        block_size=block_size,
        mask_token_id=need("mask_token_id"),
        target_layer_ids=reading.taps,
        target_hidden_size=draft.target_hidden_size,
        samples_from_anchor=drafted == block_size,
        causal=reading.causal,
        windows=reading.windows,
        partial_rotary_factor=reading.partial_rotary_factor or 1.0,
        neox=reading.neox is not False,
        rope_scaling=scaling,
        max_position_embeddings=draft.max_position_embeddings,
        embedding_scale=reading.embedding_scale,
        softcap=reading.softcap,
        output_multiplier=draft.output_multiplier or 1.0,
        vocab_size=draft.vocab_size,
        conv_kernel_size=draft.conv_kernel_size,
        conv_group_size=_nested_int(raw, "conv_group_size"),
        selector_rank=draft.selector_rank,
        selector_top_k=_nested_int(raw, "selector_top_k"),
    )


_SPELLED = {
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
}


def _nested_int(raw: Mapping[str, Any], name: str) -> int | None:
    value = lookup(raw, f"dflash_config.{name}")
    value = raw.get(name) if value is None else value
    return value if isinstance(value, int) else None


def _scaling(decoder: Mapping[str, Any]) -> dict[str, Any]:
    """The rotary scaling; empty where there is none."""
    for name in ("rope_parameters", "rope_scaling"):
        value = decoder.get(name)
        if isinstance(value, dict):
            kind = value.get("rope_type", value.get("type", "default"))
            if kind != "default":
                return {**value, "rope_type": kind}
    return {}


def _refuse_other_arithmetic(
    draft: DraftConfig, decoder: Mapping[str, Any], scaling: Mapping[str, Any], folder: Path
) -> None:
    asked = [f"{name}={decoder[name]!r}" for name, fine in _NEUTRAL.items() if decoder.get(name) not in fine]
    if draft.dialect not in _DIALECTS:
        asked.append(f"a drafter of the family {draft.dialect} ({draft.architecture})")
    asked += [f"{name}={value!r}" for name in _REFUSED_MARKS if (value := getattr(draft, name)) is not None]
    if scaling and scaling["rope_type"] not in _SCALINGS:
        asked.append(f"rope_type={scaling['rope_type']!r}")
    if asked:
        raise UsageError(
            "the reference drafter does not do what this draft config asks for",
            seen=f"{folder / 'config.json'}: {'; '.join(asked)}",
            remedy="the reference runs DFlash and DFlash2 drafters with rotary embedding of the types "
            f"{', '.join(_SCALINGS)}; leave the reference out for this drafter",
        )


def _lacks(folder: Path, name: str) -> UsageError:
    return UsageError(
        "the draft config lacks a field",
        seen=f"{folder}/config.json: no {name}, neither in dflash_config nor at top level",
        remedy="restore it from the original release",
    )


def _unfit(folder: Path, errors: list[Problem]) -> UsageError:
    told = "; ".join(f"{problem.what} ({problem.seen})" for problem in errors) or "it holds no config"
    return UsageError(
        "the draft config cannot be used",
        seen=f"{folder}/config.json: {told}",
        remedy=errors[0].remedy if errors else "name a folder with a config.json",
    )
