"""How each reader takes a drafter's config, one line each.

Read in the releases named, and run on a CPU where that is possible (vLLM 0.32, Transformers 5.24). Index
errors behind the rows: vllm-project/vllm#40727, #42704, #56692; sgl-project/sglang#37475;
ggml-org/llama.cpp#25792.
"""

from __future__ import annotations

from dflash_doctor.checkpoints.semantics.base import AnchorRule, Semantics, TapField

_SPECULATORS = (
    "speculators-dflash", "speculators-dflash2", "speculators-dspark", "speculators-eagle3",
)  # fmt: skip
_DSPARK_ANCHOR: dict[str, AnchorRule] = {
    "*": "never",
    "dspark": "default-true",
    "speculators-dspark": "stated",
}
_ZLAB_TAPS = (TapField("nested_target_layer_ids"), TapField("target_layer_ids"))
_ALL_BUT_GGUF = (
    *_SPECULATORS, "z-lab", "dflash2", "muse-glimmer", "laguna", "nemotron", "mimo", "domino", "lilicorr",
    "xpress", "dspark", "modelopt", "eagle3", "draft-model",
)  # fmt: skip
_ONLY_GGUF = dict.fromkeys(_ALL_BUT_GGUF, "it reads GGUF files only")
_EVERY = frozenset(_ALL_BUT_GGUF)
_NO_GGUF = {"gguf": "it does not read GGUF drafters"}

VLLM = Semantics(
    reader="vllm",
    versions="0.32, 0.33",
    taps=(
        TapField("aux_layer_ids", -1),
        TapField("eagle_aux_layer_ids", -1),
        TapField("nested_target_layer_ids"),
        TapField("target_layer_ids"),
    ),
    taps_absent="target-defaults",
    refuses_dialects=_NO_GGUF | {"domino": "it has no Domino projector"},
    width_argument="num_speculative_tokens",
    width_counts_anchor=False,
    causal=("is_causal", "dflash_config.causal", "class-default", "speculators-all", "layer-types"),
    anchor=_DSPARK_ANCHOR,
    refuses_nested_anchor=True,
    use_swa=True,
    theta_absent=1e4,
    # Other files pass through a config class of Transformers, which fills in 1e4 before vLLM looks.
    theta_absent_of=dict.fromkeys(_SPECULATORS, 1e6),
    partial_factor="applied",
    layout_keys=("is_neox_style",),
    keeps_own_head=True,
    scaled_dialects=frozenset({"dflash2", "speculators-dflash2"}),
    softcapped_dialects=frozenset({"dflash2", "speculators-dflash2"}),
    mixed_layers_need="VLLM_USE_V2_MODEL_RUNNER=1",
)
SGLANG = Semantics(
    reader="sglang",
    versions="0.5.23",
    taps=_ZLAB_TAPS,
    taps_absent="guess",
    refuses_dialects=_NO_GGUF | {"xpress": "it has no XPress refiner"},
    blind_dialects=frozenset(_SPECULATORS),
    width_argument="speculative_num_draft_tokens",
    width_counts_anchor=True,
    causal=("is_causal", "class-default", "layer-types"),
    anchor=_DSPARK_ANCHOR,
    theta_absent=1e4,
    partial_factor="applied",
    layout_keys=("rope_is_neox_style", "is_neox_style"),
    keeps_own_head=False,
    softcapped_dialects=_EVERY,
)
TRANSFORMERS = Semantics(
    reader="transformers",
    versions="5.19, 5.24",
    taps=_ZLAB_TAPS,
    taps_absent="refuse",
    refuses_dialects=_NO_GGUF
    | dict.fromkeys(_SPECULATORS, "it does not read speculators files")
    | dict.fromkeys(
        ("dflash2", "laguna", "mimo", "domino", "lilicorr", "xpress", "dspark"),
        "its one DFlash drafter class has other tensors",
    ),
    width_argument="block_size",
    width_counts_anchor=True,
    causal=("never",),
    anchor={"*": "never"},
    theta_absent=1e4,
    theta_absent_of={"muse-glimmer": 5e5},
    partial_factor="ignored",
    layout_keys=(),
    keeps_own_head=False,
)
LLAMA_CPP = Semantics(
    reader="llama.cpp",
    versions="master of September 2026",
    taps=(TapField("aux_layer_ids", -1),),
    taps_absent="refuse",
    refuses_dialects=_ONLY_GGUF,
    width_argument="draft-max",
    width_counts_anchor=False,
    causal=("is_causal", "never"),
    anchor={"*": "stated"},
    theta_absent=1e4,
    partial_factor="applied",
    layout_keys=(),
    keeps_own_head=True,
    softcapped_dialects=frozenset({"gguf"}),
)
ZLAB = Semantics(
    reader="z-lab",
    versions="dflash 0.1.0",
    is_engine=False,
    taps=_ZLAB_TAPS,
    taps_absent="guess",
    refuses_dialects=_NO_GGUF | dict.fromkeys(_SPECULATORS, "it does not read speculators files"),
    width_argument="block_size",
    width_counts_anchor=True,
    causal=("is_causal", "layer-types"),
    anchor=_DSPARK_ANCHOR,
    theta_absent=1e4,
    partial_factor="ignored",
    layout_keys=("rope_is_neox_style", "is_neox_style"),
    keeps_own_head=True,
    scaled_dialects=_EVERY,
    softcapped_dialects=_EVERY,
)
"""Drafters of other trainers in this layout may say their rotary layout; then it is what they say."""
SPECULATORS = Semantics(
    reader="speculators",
    versions="0.9",
    is_engine=False,
    taps=(TapField("aux_layer_ids", -1), TapField("eagle_aux_layer_ids", -1)),
    taps_absent="refuse",
    width_argument="block_size",
    width_counts_anchor=True,
    causal=("speculators-sliding",),
    anchor={"*": "stated", "speculators-dspark": "default-true"},
    theta_absent=1e4,
    partial_factor="ignored",
    layout_keys=("rope_is_neox_style", "is_neox_style"),
    keeps_own_head=True,
    scaled_dialects=_EVERY,
    softcapped_dialects=_EVERY,
)
DSPARK = Semantics(
    reader="dspark",
    versions="DeepSpec, September 2026",
    is_engine=False,
    taps=(TapField("target_layer_ids"), TapField("nested_target_layer_ids")),
    taps_absent="refuse",
    width_argument="block_size",
    width_counts_anchor=True,
    causal=("is_causal", "dflash_config.causal", "layer-types"),
    anchor={"*": "default-true"},
    theta_absent=1e4,
    partial_factor="ignored",
    layout_keys=("rope_is_neox_style", "is_neox_style"),
    keeps_own_head=True,
    scaled_dialects=_EVERY,
    softcapped_dialects=_EVERY,
)
EAGLE3 = Semantics(
    reader="eagle3",
    versions="EAGLE, 2026",
    is_engine=False,
    taps=(TapField("eagle_aux_layer_ids", -1), TapField("aux_layer_ids", -1)),
    taps_absent="target-defaults",
    width_argument="num_speculative_tokens",
    width_counts_anchor=False,
    causal=("never",),
    anchor={"*": "never"},
    theta_absent=1e4,
    partial_factor="applied",
    layout_keys=("rope_is_neox_style", "is_neox_style"),
    keeps_own_head=True,
    scaled_dialects=_EVERY,
    softcapped_dialects=_EVERY,
)
DRAFT_MODEL = Semantics(
    reader="draft-model",
    versions="any",
    is_engine=False,
    taps_absent="none",
    width_argument="num_speculative_tokens",
    width_counts_anchor=False,
    causal=("never",),
    anchor={"*": "never"},
    theta_absent=None,
    partial_factor="applied",
    layout_keys=(),
    keeps_own_head=True,
    scaled_dialects=_EVERY,
    softcapped_dialects=_EVERY,
)

SEMANTICS: tuple[Semantics, ...] = (
    VLLM, SGLANG, TRANSFORMERS, LLAMA_CPP, ZLAB, SPECULATORS, DSPARK, EAGLE3, DRAFT_MODEL,
)  # fmt: skip


def semantics_of(reader: str) -> Semantics:
    """The line of the reader called so, one of the table."""
    return next(line for line in SEMANTICS if line.reader == reader)


def engine_readers() -> tuple[str, ...]:
    """Readers that serve, in table order."""
    return tuple(line.reader for line in SEMANTICS if line.is_engine)
