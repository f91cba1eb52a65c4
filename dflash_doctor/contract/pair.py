"""What the files of target and drafter say, in one form whatever family they come from.

Numbering of taps: everywhere here, tap `i` is the output of target layer `i` (z-lab's convention; it is
`hidden_states[i + 1]` in Transformers). Lists as they stand in a file keep their own numbering and are
called `stated`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Role = Literal["target", "draft"]
Severity = Literal["error", "warning", "info"]


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that is not what it should be."""

    severity: Severity
    file: str
    what: str
    """What is wrong, as a sentence without a full stop."""
    seen: str = ""
    remedy: str = ""
    field: str | None = None
    line: int | None = None


class Tensor(msgspec.Struct, frozen=True):
    """One entry of a weight file's header; no weights are read."""

    name: str
    dtype: str
    """As the format spells it: `BF16`, `F8_E4M3`, `Q4_K`."""
    shape: tuple[int, ...]


class VocabMap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A draft-vocabulary table, summed up. `d2t` holds offsets: target id = draft id + d2t[draft id]."""

    name: str
    length: int
    all_zero: bool
    lowest_target: int | None = None
    """Smallest target id it leads to; `None` for `t2d`."""
    highest_target: int | None = None
    num_distinct: int | None = None
    """Distinct target ids it leads to."""
    num_true: int | None = None
    """Of `t2d`: target ids that the drafter can say."""
    agrees_with_other: bool | None = None
    """Whether `d2t` and `t2d` name the same target ids; `None` where only one is there."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The files of one model."""

    role: Role
    name: str
    """As the user gave it."""
    folder: str | None = None
    """`None`: a hub id of which nothing lies on this machine."""
    revision: str | None = None
    """Commit of a hub snapshot, where it is known."""
    requested_revision: str | None = None
    is_hub_id: bool = False
    config_file: str | None = None
    lines: dict[str, int] = msgspec.field(default_factory=dict)
    """Key path -> line in the config file."""
    weight_format: Literal["safetensors", "gguf", "other"] | None = None
    num_tensors: int = 0
    tensors: tuple[Tensor, ...] | None = None
    """Of the drafter all, of the target those that a pair depends on; `None`: no header could be read."""
    num_bytes: int = 0
    """Size of the weight files."""
    has_mask_embedding: bool = False
    """A file `mask_embedding.pt` lies beside the weights."""
    sha256: str | None = None
    """Over config and headers."""
    problems: tuple[Problem, ...] = ()

    def tensor(self, name: str) -> Tensor | None:
        """The tensor called so, with or without the prefix `model.`."""
        names = (name, "model." + name)
        return next((item for item in self.tensors or () if item.name in names), None)


class Quantization(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a checkpoint's weights are stored."""

    method: str
    """`fp8`, `awq`, `gptq`, `compressed-tensors`, `modelopt` ..."""
    scheme: str = ""
    ignored_modules: tuple[str, ...] = ()
    covers_head: bool = False
    rotation: str | None = None
    """What the config says of a rotation (Hadamard, QuaRot, SpinQuant ...), as it stands there."""
    field: str = "quantization_config"


class DraftConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A drafter's config. What the file does not state is `None`; defaults are the readers' affair."""

    dialect: str
    """Which family wrote it; one of the dialect catalog."""
    native: str
    """Whose reading of the fields the drafter was trained under; one of the semantics table."""
    sources: dict[str, str] = msgspec.field(default_factory=dict)
    """Field here -> key path in the file."""
    architecture: str | None = None
    model_type: str | None = None
    hidden_size: int | None = None
    intermediate_size: int | None = None
    num_layers: int | None = None
    num_heads: int | None = None
    num_kv_heads: int | None = None
    head_dim: int | None = None
    vocab_size: int | None = None
    draft_vocab_size: int | None = None
    target_hidden_size: int | None = None
    num_target_layers: int | None = None
    block_size: int | None = None
    proposed_tokens: int | None = None
    """Draft tokens per step that the file itself asks for."""
    mask_token_id: int | None = None
    sample_from_anchor: bool | None = None
    nested_sample_from_anchor: bool | None = None
    """The same inside `dflash_config`, where one engine looks and others do not."""
    nested_target_layer_ids: tuple[int, ...] | None = None
    """`dflash_config.target_layer_ids`: outputs of these layers."""
    target_layer_ids: tuple[int, ...] | None = None
    """The same at top level."""
    eagle_aux_layer_ids: tuple[int, ...] | None = None
    """`eagle_aux_hidden_state_layer_ids`: streams *entering* these layers, one more than outputs."""
    aux_layer_ids: tuple[int, ...] | None = None
    """speculators' `aux_hidden_state_layer_ids`, GGUF's `target_layers`: likewise one more."""
    layer_types: tuple[str, ...] | None = None
    sliding_window: int | None = None
    use_sliding_window: bool | None = None
    """Without it Transformers' Qwen3 config class forgets `sliding_window`."""
    use_swa: bool | None = None
    swa_window_size: int | None = None
    is_causal: bool | None = None
    causal: bool | None = None
    """`dflash_config.causal`."""
    sliding_window_non_causal: bool | None = None
    rope_theta: float | None = None
    """At top level."""
    nested_rope_theta: float | None = None
    """In `rope_parameters` (or `rope_scaling`)."""
    partial_rotary_factor: float | None = None
    rope_type: str | None = None
    rope_factor: float | None = None
    is_neox_style: bool | None = None
    rope_is_neox_style: bool | None = None
    max_position_embeddings: int | None = None
    dtype: str | None = None
    quantization: Quantization | None = None
    tie_word_embeddings: bool | None = None
    final_logit_softcapping: float | None = None
    input_embedding_scale: float | None = None
    output_multiplier: float | None = None
    conv_kernel_size: int | None = None
    selector_rank: int | None = None
    markov_rank: int | None = None
    projector_type: str | None = None
    has_own_embedding: bool | None = None
    """As the config says; what the weight file holds is in its tensors."""
    verifier_name: str | None = None
    verifier_architecture: str | None = None
    transformers_version: str | None = None

    @property
    def trained_taps(self) -> tuple[int, ...] | None:
        """The taps it was trained with, as output ids; `None` where the file names none."""
        for ids in (self.nested_target_layer_ids, self.target_layer_ids):
            if ids is not None:
                return ids
        for ids in (self.aux_layer_ids, self.eagle_aux_layer_ids):
            if ids is not None:
                return tuple(item - 1 for item in ids)
        return None

    @property
    def is_block_drafter(self) -> bool:
        """Whether it fills a block at once (DFlash and its relatives)."""
        return self.dialect not in ("eagle3", "speculators-eagle3", "draft-model")

    @property
    def samples_from_anchor(self) -> bool | None:
        """What the file says of the anchor slot, wherever it says it."""
        if self.nested_sample_from_anchor is not None:
            return self.nested_sample_from_anchor
        return self.sample_from_anchor

    def layer_kinds(self) -> tuple[str, ...] | None:
        """`sliding_attention` or `full_attention` per layer; `None` where their number is unknown."""
        if self.layer_types is not None and "sliding_attention" in self.layer_types:
            return self.layer_types
        if self.num_layers is None:
            return self.layer_types
        kind = "sliding_attention" if self.use_swa else "full_attention"
        return (kind,) * self.num_layers

    @property
    def window(self) -> int | None:
        """Length of the sliding window, wherever the file states it."""
        return self.swa_window_size if self.swa_window_size is not None else self.sliding_window


class TargetConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A target's config; the text part of a multimodal one."""

    sources: dict[str, str] = msgspec.field(default_factory=dict)
    architecture: str | None = None
    model_type: str | None = None
    hidden_size: int | None = None
    num_layers: int | None = None
    num_heads: int | None = None
    num_kv_heads: int | None = None
    head_dim: int | None = None
    vocab_size: int | None = None
    layer_types: tuple[str, ...] | None = None
    max_position_embeddings: int | None = None
    rope_theta: float | None = None
    nested_rope_theta: float | None = None
    partial_rotary_factor: float | None = None
    rope_interleaved: bool | None = None
    tie_word_embeddings: bool | None = None
    dtype: str | None = None
    quantization: Quantization | None = None
    final_logit_softcapping: float | None = None
    kv_lora_rank: int | None = None
    """Set on targets with multi-head latent attention."""
    is_recurrent: bool = False
    """Has linear-attention or state-space layers."""
    scales_embedding: bool = False
    """Multiplies embeddings by sqrt(hidden size), as the Gemma family does."""
    interleaved_family: bool = False
    """Its family rotates neighbouring pairs instead of halves."""

    @property
    def theta(self) -> float | None:
        """Base of its rotary frequencies."""
        return self.nested_rope_theta if self.nested_rope_theta is not None else self.rope_theta


class TensorCensus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A drafter's tensors against those that its family has."""

    num_expected: int
    """Modules that must be there."""
    num_layers: int | None = None
    """Layers in the file."""
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    misshapen: tuple[tuple[str, str, str], ...] = ()
    """Tensor, its shape, the shape that the config asks for."""


GUESSED = "guessed from the numbers of layers"
"""Where taps come from that no file states."""


class Reading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one engine would do with a drafter's files."""

    reader: str
    versions: str
    """Releases in which this was seen."""
    refuses: str | None = None
    """Why it does not start; `None` where it does."""
    taps: tuple[int, ...] | None = None
    """Outputs of these target layers; `None` where it cannot be known."""
    taps_from: str = ""
    """Where the taps come from: a key path, `GUESSED`, or the target class's defaults."""
    num_draft_tokens: int | None = None
    """Draft tokens in one full block."""
    width_argument: str = ""
    """Its name for the width, and whether that counts the anchor."""
    mask_token_id: int | None = None
    mask_from: str = ""
    causal: tuple[bool, ...] | None = None
    """Per drafter layer, inside the block."""
    causal_from: str = ""
    windows: tuple[int | None, ...] | None = None
    rope_theta: float | None = None
    theta_from: str = ""
    partial_rotary_factor: float | None = None
    neox: bool | None = None
    neox_from: str = ""
    max_position_embeddings: int | None = None
    keeps_own_head: bool = True
    """Uses the drafter's own head where its file has one."""
    embedding_scale: float = 1.0
    """By what it multiplies the embeddings of the block."""
    softcap: float | None = None
    """Soft cap that it puts on the draft logits."""
    needs: tuple[str, ...] = ()
    """What must be set for it to start."""


class PairContract(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Target and drafter, and how each engine reads the drafter."""

    target: Checkpoint
    draft: Checkpoint | None = None
    target_config: TargetConfig | None = None
    draft_config: DraftConfig | None = None
    vocab_maps: tuple[VocabMap, ...] = ()
    census: TensorCensus | None = None
    """`None`: the family's tensors are not known, or none could be read."""
    needs_mask_embedding: bool = False
    """The family keeps the mask's embedding in a file of its own."""
    trained: Reading | None = None
    """The reading under which the drafter was trained."""
    readings: tuple[Reading, ...] = ()
    """One per engine."""

    def reading(self, reader: str) -> Reading | None:
        """How the engine called so reads the drafter."""
        return next((item for item in self.readings if item.reader == reader), None)
