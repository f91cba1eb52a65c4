"""How each reader takes a drafter: the table, cell by cell, and against the installed engine."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dialect_pairs import HEALTHY, SLIDING, HealthyPair
from doctor_process import require_vllm
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.checkpoints.dialects.catalog import DIALECTS
from dflash_doctor.checkpoints.pair import read_pair
from dflash_doctor.checkpoints.semantics.read import (
    TARGET_DEFAULTS,
    guessed_taps,
    read_as,
    readings,
)
from dflash_doctor.checkpoints.semantics.table import SEMANTICS, engine_readers, semantics_of
from dflash_doctor.contract.pair import GUESSED, DraftConfig, Reading, TargetConfig

FULL = "full_attention"
MIXED = (SLIDING, FULL)
TARGET = TargetConfig(num_layers=36)
ALL = tuple(line.reader for line in SEMANTICS)


def reading(
    reader: str, dialect: str = "z-lab", target: TargetConfig | None = TARGET, **fields: Any
) -> Reading:
    fields.setdefault("num_layers", 2)
    fields.setdefault("native", "z-lab")
    return read_as(semantics_of(reader), DraftConfig(dialect=dialect, **fields), target)


# Taps: whose numbers mean what, and which field wins.


@pytest.mark.parametrize("reader", ["z-lab", "sglang", "vllm", "transformers", "dspark"])
@pytest.mark.parametrize("field", ["nested_target_layer_ids", "target_layer_ids"])
def test_taps_when_ids_are_outputs_then_stay_as_written(reader: str, field: str) -> None:
    assert reading(reader, **{field: (1, 9, 17)}).taps == (1, 9, 17)


@pytest.mark.parametrize(
    ("reader", "dialect", "field"),
    [
        ("vllm", "z-lab", "eagle_aux_layer_ids"),
        ("vllm", "speculators-dflash", "aux_layer_ids"),
        ("speculators", "speculators-dflash", "aux_layer_ids"),
        ("speculators", "speculators-eagle3", "eagle_aux_layer_ids"),
        ("eagle3", "eagle3", "eagle_aux_layer_ids"),
        ("llama.cpp", "gguf", "aux_layer_ids"),
    ],
)
def test_taps_when_ids_are_inputs_then_one_is_taken_off(reader: str, dialect: str, field: str) -> None:
    assert reading(reader, dialect, **{field: (2, 10, 18)}).taps == (1, 9, 17)


@pytest.mark.parametrize(
    ("reader", "taps", "source"),
    [
        ("vllm", (1, 9), "eagle_aux_hidden_state_layer_ids"),
        ("sglang", (5, 6), "dflash_config.target_layer_ids"),
        ("z-lab", (5, 6), "dflash_config.target_layer_ids"),
        ("dspark", (7, 8), "target_layer_ids"),
    ],
)
def test_taps_when_several_lists_stand_then_each_reader_takes_its_own(
    reader: str, taps: tuple[int, ...], source: str
) -> None:
    found = reading(
        reader,
        eagle_aux_layer_ids=(2, 10),
        nested_target_layer_ids=(5, 6),
        target_layer_ids=(7, 8),
        sources={
            "eagle_aux_layer_ids": "eagle_aux_hidden_state_layer_ids",
            "nested_target_layer_ids": "dflash_config.target_layer_ids",
            "target_layer_ids": "target_layer_ids",
        },
    )
    assert (found.taps, found.taps_from) == (taps, source)


def test_taps_when_speculators_file_has_both_lists_then_vllm_overwrites_eagles() -> None:
    found = reading("vllm", "speculators-dflash", aux_layer_ids=(2, 10), eagle_aux_layer_ids=(5, 6))
    assert found.taps == (1, 9)


@pytest.mark.parametrize(
    ("reader", "taps", "source", "refuses"),
    [
        ("z-lab", (1, 33), GUESSED, None),
        ("sglang", (1, 33), GUESSED, None),
        ("vllm", None, TARGET_DEFAULTS, None),
        ("transformers", None, "", "the file names no taps"),
        ("speculators", None, "", "the file names no taps"),
        ("dspark", None, "", "the file names no taps"),
    ],
)
def test_taps_when_file_names_none_then_readers_guess_default_or_refuse(
    reader: str, taps: tuple[int, ...] | None, source: str, refuses: str | None
) -> None:
    found = reading(reader)
    assert (found.taps, found.taps_from, found.refuses) == (taps, source, refuses)


def test_taps_when_target_is_unknown_then_guess_from_what_the_drafter_says() -> None:
    assert reading("sglang", target=None, num_target_layers=36).taps == (1, 33)
    assert reading("sglang", target=None).taps is None


@pytest.mark.parametrize("dialect", ["speculators-dflash", "speculators-dflash2", "speculators-dspark"])
def test_taps_when_speculators_wrote_the_file_then_sglang_guesses(dialect: str) -> None:
    found = reading("sglang", dialect, num_layers=5, aux_layer_ids=(2, 3, 4, 5, 6))
    assert (found.taps, found.taps_from, found.refuses) == ((1, 9, 17, 25, 33), GUESSED, None)


@pytest.mark.parametrize("reader", ["vllm", "sglang", "transformers"])
def test_taps_when_drafter_needs_none_then_nobody_guesses(reader: str) -> None:
    found = reading(reader, "draft-model")
    assert (found.taps, found.taps_from, found.refuses) == (None, "", None)


def test_taps_when_eagle_head_names_none_then_vllm_takes_the_targets_own() -> None:
    assert reading("vllm", "eagle3").taps_from == TARGET_DEFAULTS
    assert reading("sglang", "eagle3").taps is None


@pytest.mark.parametrize(
    ("draft_layers", "target_layers", "taps"),
    [
        (5, 36, (1, 9, 17, 25, 33)),
        (5, 32, (1, 8, 15, 22, 29)),
        (5, 40, (1, 10, 19, 28, 37)),
        (5, 64, (1, 16, 31, 46, 61)),
        (6, 60, (1, 12, 23, 35, 46, 57)),
        (8, 40, (1, 6, 11, 16, 22, 27, 32, 37)),
        (5, 52, (1, 13, 25, 37, 49)),
        (1, 36, (18,)),
        (2, 4, (1, 1)),
    ],
)
def test_guessed_taps_when_released_drafters_are_asked_then_are_theirs(
    draft_layers: int, target_layers: int, taps: tuple[int, ...]
) -> None:
    assert guessed_taps(draft_layers, target_layers) == taps


@given(draft_layers=st.integers(2, 20), target_layers=st.integers(4, 200))
def test_guessed_taps_when_target_is_deep_enough_then_run_from_the_second_to_the_third_last(
    draft_layers: int, target_layers: int
) -> None:
    taps = guessed_taps(draft_layers, target_layers)
    assert len(taps) == draft_layers
    assert (taps[0], taps[-1]) == (1, target_layers - 3)
    assert list(taps) == sorted(taps)


# Causality inside the block.


@pytest.mark.parametrize(
    ("reader", "causal"),
    [
        ("z-lab", (True, False)),
        ("sglang", (True, False)),
        ("vllm", (True, False)),
        ("dspark", (True, False)),
        ("transformers", (False, False)),
        ("llama.cpp", (False, False)),
    ],
)
def test_causal_when_no_key_is_stated_then_follows_the_layer_types_or_never(
    reader: str, causal: tuple[bool, ...]
) -> None:
    found = reading(reader, layer_types=MIXED)
    assert found.causal == causal
    assert found.causal_from == ("always bidirectional" if not any(causal) else "the layer types")


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(
    ("reader", "obeys"),
    [("z-lab", True), ("sglang", True), ("vllm", True), ("llama.cpp", True), ("transformers", False)],
)
def test_causal_when_is_causal_is_stated_then_decides_for_all_layers_but_in_transformers(
    reader: str, obeys: bool, value: bool
) -> None:
    found = reading(reader, layer_types=MIXED, is_causal=value, causal=not value)
    assert found.causal == ((value if obeys else False),) * 2


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(
    ("reader", "causal"),
    [("vllm", None), ("z-lab", (True, False)), ("sglang", (True, False)), ("transformers", (False, False))],
)
def test_causal_when_nested_key_is_stated_then_only_vllm_obeys(
    reader: str, causal: tuple[bool, ...] | None, value: bool
) -> None:
    found = reading(reader, layer_types=MIXED, causal=value)
    assert found.causal == (causal or (value,) * 2)


@pytest.mark.parametrize(
    ("dialect", "flag", "vllm", "trained"),
    [
        ("speculators-dflash", False, (True, True), (True, False)),
        ("speculators-dflash", True, (False, False), (False, False)),
        ("speculators-dflash", None, (False, False), (True, False)),
        ("speculators-dflash2", False, (True, True), (True, False)),
        ("speculators-dflash2", True, (False, False), (False, False)),
        ("speculators-dflash2", None, (False, False), (False, False)),
        ("speculators-dspark", False, (True, False), (True, False)),
        ("speculators-dspark", True, (True, False), (False, False)),
        ("speculators-dspark", None, (True, False), (True, False)),
    ],
)
def test_causal_when_speculators_wrote_the_file_then_vllm_and_training_differ(
    dialect: str, flag: bool | None, vllm: tuple[bool, ...], trained: tuple[bool, ...]
) -> None:
    fields = {"layer_types": MIXED, "sliding_window_non_causal": flag}
    assert reading("vllm", dialect, **fields).causal == vllm
    assert reading("speculators", dialect, **fields).causal == trained


@pytest.mark.parametrize("reader", ["vllm", "sglang", "transformers"])
def test_causal_when_muse_glimmer_slides_then_no_engine_makes_it_causal(reader: str) -> None:
    assert reading(reader, "muse-glimmer", layer_types=(SLIDING,) * 2).causal == (False, False)


@pytest.mark.parametrize("reader", ["vllm", "sglang", "z-lab"])
def test_causal_when_layers_are_not_known_then_is_unknown(reader: str) -> None:
    assert reading(reader, num_layers=None).causal is None


# Windows.


def test_windows_when_layers_are_typed_then_sliding_ones_have_it() -> None:
    for reader in ALL:
        assert reading(reader, layer_types=MIXED, sliding_window=2048).windows == (2048, None)


def test_windows_when_use_swa_is_set_on_full_layers_then_only_vllm_slides_and_stays_bidirectional() -> None:
    fields = {"layer_types": (FULL, FULL), "use_swa": True, "swa_window_size": 1024, "sliding_window": 9}
    found = reading("vllm", "mimo", **fields)
    assert (found.windows, found.causal) == ((1024, 1024), (False, False))
    assert reading("sglang", "mimo", **fields).windows == (None, None)
    assert reading("z-lab", "mimo", **fields).windows == (None, None)


def test_windows_when_some_layers_slide_then_use_swa_does_not_touch_the_full_ones() -> None:
    found = reading("vllm", layer_types=MIXED, use_swa=True, swa_window_size=1024, sliding_window=9)
    assert (found.windows, found.causal) == ((1024, None), (True, False))


@pytest.mark.parametrize(
    ("kinds", "needs"),
    [(MIXED, ("VLLM_USE_V2_MODEL_RUNNER=1",)), ((SLIDING, SLIDING), ()), ((FULL, FULL), ()), (None, ())],
)
def test_needs_when_layers_are_mixed_then_vllm_needs_its_second_runner(
    kinds: tuple[str, ...] | None, needs: tuple[str, ...]
) -> None:
    assert reading("vllm", layer_types=kinds).needs == needs
    assert reading("sglang", layer_types=kinds).needs == ()


# Width and anchor.


@pytest.mark.parametrize(
    ("reader", "argument"),
    [
        ("vllm", "num_speculative_tokens"),
        ("sglang", "speculative_num_draft_tokens (counts the anchor)"),
        ("transformers", "block_size (counts the anchor)"),
        ("z-lab", "block_size (counts the anchor)"),
        ("speculators", "block_size (counts the anchor)"),
        ("llama.cpp", "draft-max"),
    ],
)
def test_width_when_block_is_stated_then_one_slot_is_the_anchors(reader: str, argument: str) -> None:
    found = reading(reader, block_size=16)
    assert (found.num_draft_tokens, found.width_argument) == (15, argument)
    assert reading(reader).num_draft_tokens is None


@pytest.mark.parametrize(
    ("reader", "dialect", "stated", "tokens"),
    [
        ("vllm", "dspark", None, 7),
        ("vllm", "dspark", False, 6),
        ("sglang", "dspark", None, 7),
        ("dspark", "dspark", None, 7),
        ("vllm", "speculators-dspark", None, 6),
        ("vllm", "speculators-dspark", True, 7),
        ("speculators", "speculators-dspark", None, 7),
        ("speculators", "speculators-dspark", False, 6),
        ("speculators", "speculators-dflash", None, 6),
        ("speculators", "speculators-dflash", True, 7),
        ("vllm", "z-lab", True, 6),
        ("z-lab", "z-lab", True, 6),
        ("transformers", "z-lab", True, 6),
        ("llama.cpp", "gguf", None, 6),
        ("llama.cpp", "gguf", True, 7),
        ("vllm", "eagle3", None, None),
        ("vllm", "draft-model", True, None),
    ],
)
def test_width_when_anchor_may_predict_then_reader_and_family_decide(
    reader: str, dialect: str, stated: bool | None, tokens: int | None
) -> None:
    assert reading(reader, dialect, block_size=7, sample_from_anchor=stated).num_draft_tokens == tokens


@pytest.mark.parametrize(
    ("reader", "dialect", "field", "refuses"),
    [
        ("vllm", "z-lab", "nested_sample_from_anchor", True),
        ("vllm", "z-lab", "sample_from_anchor", False),
        ("vllm", "dspark", "nested_sample_from_anchor", False),
        ("vllm", "speculators-dflash", "sample_from_anchor", True),
        ("vllm", "speculators-dflash2", "sample_from_anchor", True),
        ("vllm", "speculators-dspark", "sample_from_anchor", False),
        ("vllm", "speculators-eagle3", "sample_from_anchor", False),
        ("sglang", "z-lab", "nested_sample_from_anchor", False),
    ],
)
def test_refuses_when_anchor_predicts_then_vllm_refuses_dflash_and_takes_dspark(
    reader: str, dialect: str, field: str, refuses: bool
) -> None:
    found = reading(reader, dialect, aux_layer_ids=(2,), **{field: True})
    assert (found.refuses == "it does not run DFlash blocks whose anchor predicts") is refuses


# Rotary embedding.


@pytest.mark.parametrize("reader", [name for name in ALL if name != "draft-model"])
def test_theta_when_both_places_state_it_then_the_nested_one_counts(reader: str) -> None:
    found = reading(
        reader,
        rope_theta=5.0,
        nested_rope_theta=7.0,
        sources={"nested_rope_theta": "rope_parameters.rope_theta"},
    )
    assert (found.rope_theta, found.theta_from) == (7.0, "rope_parameters.rope_theta")
    assert reading(reader, rope_theta=5.0).rope_theta == 5.0


@pytest.mark.parametrize(
    ("reader", "dialect", "theta"),
    [
        ("vllm", "z-lab", 1e4),
        ("vllm", "speculators-dflash", 1e6),
        ("vllm", "speculators-dspark", 1e6),
        ("vllm", "muse-glimmer", 1e4),
        ("sglang", "z-lab", 1e4),
        ("transformers", "z-lab", 1e4),
        ("transformers", "muse-glimmer", 5e5),
        ("llama.cpp", "gguf", 1e4),
        ("z-lab", "z-lab", 1e4),
        ("speculators", "speculators-dflash", 1e4),
        ("dspark", "dspark", 1e4),
        ("draft-model", "draft-model", None),
    ],
)
def test_theta_when_file_names_none_then_each_reader_has_its_default(
    reader: str, dialect: str, theta: float | None
) -> None:
    found = reading(reader, dialect)
    assert (found.rope_theta, found.theta_from) == (theta, f"the default of {reader}")


@pytest.mark.parametrize(
    ("reader", "applied"),
    [("vllm", True), ("sglang", True), ("llama.cpp", True), ("z-lab", False), ("transformers", False),
     ("speculators", False), ("dspark", False)],
)  # fmt: skip
def test_partial_factor_when_stated_then_is_applied_by_some_and_ignored_by_others(
    reader: str, applied: bool
) -> None:
    assert reading(reader, partial_rotary_factor=0.25).partial_rotary_factor == (0.25 if applied else 1.0)
    assert reading(reader).partial_rotary_factor == 1.0


@pytest.mark.parametrize(
    ("reader", "fields", "neox"),
    [
        ("vllm", {"is_neox_style": False}, False),
        ("vllm", {"rope_is_neox_style": False}, True),
        ("sglang", {"is_neox_style": False}, False),
        ("sglang", {"rope_is_neox_style": False}, False),
        ("sglang", {"rope_is_neox_style": True, "is_neox_style": False}, True),
        ("transformers", {"rope_is_neox_style": False, "is_neox_style": False}, True),
        ("llama.cpp", {"is_neox_style": False}, True),
        ("vllm", {}, True),
    ],
)
def test_layout_when_keys_are_stated_then_each_engine_has_its_own(
    reader: str, fields: dict[str, bool], neox: bool
) -> None:
    assert reading(reader, **fields).neox is neox


# Who starts with what.


@pytest.mark.parametrize(
    ("reader", "dialects"),
    [
        ("vllm", {"gguf", "domino"}),
        ("sglang", {"gguf", "xpress"}),
        (
            "transformers",
            {
                "gguf", "speculators-dflash", "speculators-dflash2", "speculators-dspark",
                "speculators-eagle3", "dflash2", "laguna", "mimo", "domino", "lilicorr", "xpress", "dspark",
            },
        ),
        ("llama.cpp", {dialect.name for dialect in DIALECTS} - {"gguf"}),
    ],
)  # fmt: skip
def test_refuses_when_a_dialect_is_not_for_an_engine_then_says_why(reader: str, dialects: set[str]) -> None:
    ids = {"nested_target_layer_ids": (1, 9), "aux_layer_ids": (2, 10)}
    refused = {dialect.name for dialect in DIALECTS if reading(reader, dialect.name, **ids).refuses}
    assert refused == dialects


def test_table_when_listed_then_engines_are_those_that_serve() -> None:
    assert engine_readers() == ("vllm", "sglang", "transformers", "llama.cpp")
    names = {dialect.name for dialect in DIALECTS}
    for line in SEMANTICS:
        mentioned = {*line.refuses_dialects, *line.blind_dialects, *line.theta_absent_of, *line.anchor}
        assert mentioned - {"*"} <= names


def test_readings_when_drafter_is_read_then_there_is_one_per_engine_and_the_native_one() -> None:
    trained, by_engine = readings(DraftConfig(dialect="z-lab", native="z-lab", num_layers=2), TARGET)
    assert trained.reader == "z-lab"
    assert tuple(item.reader for item in by_engine) == engine_readers()


@pytest.mark.parametrize("pair", HEALTHY, ids=lambda pair: pair.name)
def test_readings_when_pair_is_healthy_then_the_engine_reads_what_was_trained(
    pair: HealthyPair, tmp_path: Path
) -> None:
    contract = read_pair(*pair.write(tmp_path))
    served, trained = contract.reading(pair.served_by), contract.trained
    assert served is not None
    assert trained is not None
    assert served.refuses is None
    assert (served.taps, served.causal, served.num_draft_tokens) == (
        pair.taps,
        pair.causal,
        pair.num_draft_tokens,
    )
    for name in (
        "taps", "causal", "windows", "num_draft_tokens", "rope_theta", "partial_rotary_factor", "neox",
        "mask_token_id",
    ):  # fmt: skip
        assert getattr(served, name) == getattr(trained, name), name
    assert dict.fromkeys(item.split("=")[0] for item in served.needs).keys() <= pair.environ.keys()


DRAFTS = st.builds(
    DraftConfig,
    dialect=st.sampled_from([dialect.name for dialect in DIALECTS]),
    native=st.sampled_from(ALL),
    num_layers=st.none() | st.integers(1, 9),
    num_target_layers=st.none() | st.integers(1, 9),
    block_size=st.none() | st.integers(1, 9),
    layer_types=st.none() | st.lists(st.sampled_from([*MIXED, "other"]), max_size=9).map(tuple),
    use_swa=st.none() | st.booleans(),
    is_causal=st.none() | st.booleans(),
    nested_target_layer_ids=st.none() | st.lists(st.integers(-3, 99), max_size=4).map(tuple),
)


@given(draft=DRAFTS, num_layers=st.none() | st.integers(1, 9))
def test_readings_when_drafter_is_arbitrary_then_never_raise(
    draft: DraftConfig, num_layers: int | None
) -> None:
    trained, by_engine = readings(draft, TargetConfig(num_layers=num_layers))
    for item in (trained, *by_engine):
        if item.num_draft_tokens is not None and draft.block_size is not None:
            assert item.num_draft_tokens in (draft.block_size, draft.block_size - 1)


# The installed engine, asked itself.

ASK = """
import json, sys
from types import SimpleNamespace
from vllm.model_executor.models.qwen3_dflash import _dflash_layer_causal
from vllm.transformers_utils.config import get_config, set_default_rope_theta
from vllm.v1.worker.gpu.spec_decode.eagle.eagle3_utils import get_eagle3_aux_layers_from_config
from vllm.v1.worker.gpu.spec_decode.utils import get_parallel_drafting_token_id

def ask(folder):
    config = get_config(folder, trust_remote_code=False)
    spec = SimpleNamespace(draft_model_config=SimpleNamespace(hf_config=config))
    set_default_rope_theta(config, 1000000)
    aux = get_eagle3_aux_layers_from_config(spec)
    return {
        "taps": None if aux is None else [item - 1 for item in aux],
        "causal": [_dflash_layer_causal(config, i) for i in range(config.num_hidden_layers)],
        "theta": config.rope_parameters["rope_theta"],
        "partial": config.rope_parameters.get("partial_rotary_factor", 1.0),
        "mask": get_parallel_drafting_token_id(config),
        "neox": getattr(config, "is_neox_style", True),
    }

print("ANSWER" + json.dumps([ask(folder) for folder in json.load(sys.stdin)]))
"""


def variants() -> list[dict[str, Any]]:
    """Configs that spell the same questions every way."""
    base = {
        "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "intermediate_size": 64, "vocab_size": 99, "model_type": "qwen3",
        "sliding_window": 32, "use_sliding_window": True,
    }  # fmt: skip
    slides = {"layer_types": [SLIDING, FULL]}
    zlab = {"architectures": ["DFlashDraftModel"], **base}
    ids = {"mask_token_id": 3, "target_layer_ids": [1, 5]}
    found: list[dict[str, Any]] = [
        {**zlab, "dflash_config": ids},
        {**zlab, **slides, "dflash_config": ids, "rope_theta": 5e5},
        {**zlab, **slides, "dflash_config": ids | {"causal": False}, "rope_theta": 5e5},
        {**zlab, **slides, "dflash_config": ids | {"causal": True}, "is_causal": False},
        {**zlab, "dflash_config": ids, "eagle_aux_hidden_state_layer_ids": [4, 8], "is_neox_style": False},
        {**zlab, **ids, "dflash_config": {}},
        {**zlab, "dflash_config": ids, "rope_parameters": {"rope_type": "default", "rope_theta": 7e5}},
        {**zlab, "dflash_config": ids, "rope_theta": 5e5, "partial_rotary_factor": 0.5},
        {**base, **slides, **ids, "architectures": ["Qwen3DSparkModel"], "markov_rank": 8},
        {
            **base, **ids, "architectures": ["MuseGlimmerAssistantModel"],
            "model_type": "muse_glimmer_assistant", "layer_types": [SLIDING, SLIDING],
        },
    ]  # fmt: skip
    ropes: list[dict[str, Any]] = [
        {},
        {"rope_theta": 5e5},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 7e5}},
    ]
    for kind, flag, rope in itertools.product(("dflash", "dflash2", "dspark"), (None, True, False), ropes):
        found.append(
            {
                "architectures": ["x"],
                "speculators_model_type": kind,
                "speculators_config": {
                    "algorithm": kind,
                    "proposal_methods": [{"speculative_tokens": 7}],
                    "verifier": {"name_or_path": "x", "architectures": ["x"]},
                },
                "aux_hidden_state_layer_ids": [2, 6],
                "mask_token_id": 3,
                "draft_vocab_size": 99,
                "block_size": 8,
                **({} if flag is None else {"sliding_window_non_causal": flag}),
                "transformer_layer_config": {**base, **slides, **rope},
            }
        )
    return found


@pytest.mark.engine
def test_readings_when_the_installed_vllm_is_asked_then_it_reads_the_same(tmp_path: Path) -> None:
    require_vllm()
    folders = []
    for number, config in enumerate(variants()):
        folder = tmp_path / f"v{number}"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        folders.append(folder)
    for pair in HEALTHY:
        if pair.served_by == "vllm" and pair.dialect not in (
            "eagle3",
            "speculators-eagle3",
            "draft-model",
            "laguna",
        ):
            pair.write_draft(tmp_path / pair.name)
            folders.append(tmp_path / pair.name)
    result = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps([str(folder) for folder in folders]),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in result.stdout.splitlines() if line.startswith("ANSWER")]
    assert lines, result.stderr[-3000:]
    for folder, answer in zip(folders, json.loads(lines[0].removeprefix("ANSWER")), strict=True):
        ours = read_pair(str(folder), str(folder)).reading("vllm")
        assert ours is not None
        assert {
            "taps": None if ours.taps is None else list(ours.taps),
            "causal": list(ours.causal or ()),
            "theta": ours.rope_theta,
            "partial": ours.partial_rotary_factor,
            "mask": ours.mask_token_id,
            "neox": ours.neox,
        } == answer, folder.name
