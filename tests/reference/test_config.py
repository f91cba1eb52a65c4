"""A draft config is read as its trainer meant it, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.checkpoints.semantics.read import guessed_taps
from dflash_doctor.errors import UsageError
from dflash_doctor.reference.config import read_drafter_config

BUNDLED = json.loads((bundled_fixtures() / "tiny_pair" / "draft" / "config.json").read_text())


def write(folder: Path, **changes: Any) -> Path:
    """The bundled config with fields changed; `None` leaves the field out, `dflash_config` is merged."""
    config = {**BUNDLED, **changes}
    if isinstance(changes.get("dflash_config"), dict):
        config["dflash_config"] = {**BUNDLED["dflash_config"], **changes["dflash_config"]}
    config = {name: value for name, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_read_drafter_config_when_bundled_then_has_its_numbers(tmp_path: Path) -> None:
    config = read_drafter_config(write(tmp_path))
    assert (config.block_size, config.mask_token_id, config.target_layer_ids) == (8, 3, (1, 3, 4))
    assert (config.hidden_size, config.num_layers, config.num_heads, config.num_kv_heads) == (128, 2, 4, 2)
    assert (config.head_dim, config.rope_theta, config.rms_norm_eps) == (32, 1e4, 1e-6)


def test_read_drafter_config_when_theta_stands_twice_then_rope_parameters_win(tmp_path: Path) -> None:
    assert read_drafter_config(write(tmp_path, rope_theta=5.0)).rope_theta == 1e4
    assert read_drafter_config(write(tmp_path, rope_theta=5.0, rope_parameters=None)).rope_theta == 5.0


def test_read_drafter_config_when_fields_stand_at_top_level_then_finds_them(tmp_path: Path) -> None:
    config = read_drafter_config(
        write(tmp_path, dflash_config=None, mask_token_id=7, target_layer_ids=[0, 2], block_size=4)
    )
    assert (config.block_size, config.mask_token_id, config.target_layer_ids) == (4, 7, (0, 2))


def test_read_drafter_config_when_a_field_stands_in_both_places_then_dflash_config_wins(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path, mask_token_id=7, block_size=4, dflash_config={"block_size": 12})
    config = read_drafter_config(folder)
    assert (config.block_size, config.mask_token_id) == (12, 3)


def test_read_drafter_config_when_taps_are_absent_then_derives_them_as_zlab_does(tmp_path: Path) -> None:
    folder = write(
        tmp_path, dflash_config={"target_layer_ids": None}, num_hidden_layers=5, num_target_layers=36
    )
    assert read_drafter_config(folder).target_layer_ids == (1, 9, 17, 25, 33)


@given(st.integers(2, 12), st.integers(16, 100))
def test_default_taps_when_derived_then_rise_from_one_to_the_third_last_layer(
    num_draft: int, num_target: int
) -> None:
    taps = guessed_taps(num_draft, num_target)
    assert len(taps) == num_draft
    assert (taps[0], taps[-1]) == (1, num_target - 3)
    assert list(taps) == sorted(set(taps))


def test_default_taps_when_the_drafter_has_one_layer_then_is_the_middle() -> None:
    assert guessed_taps(1, 36) == (18,)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4}}, "dynamic"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"attention_bias": True}, "attention_bias"),
        ({"dflash_config": {"projector_type": "domino"}}, "projector_type"),
        ({"architectures": ["Qwen3DSparkModel"], "markov_rank": 8}, "dspark"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_read_drafter_config_when_it_asks_for_other_arithmetic_then_refuses_and_names_it(
    changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=named):
        read_drafter_config(write(tmp_path, **changes))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"dflash_config": None}, "no mask_token_id"),
        ({"hidden_size": None}, "no hidden_size"),
        ({"hidden_size": "wide"}, "hidden_size is not what it should be"),
        ({"dflash_config": [1, 2]}, "dflash_config is not what it should be"),
        ({"num_attention_heads": 0, "head_dim": None}, "config.json"),
    ],
    ids=["no mask", "no hidden size", "text for a number", "list for an object", "no heads"],
)
def test_read_drafter_config_when_a_field_is_missing_or_wrong_then_says_which(
    changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=named):
        read_drafter_config(write(tmp_path, **changes))


def test_read_drafter_config_when_the_folder_is_absent_then_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        read_drafter_config(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        (
            {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 64},
            "windows",
            (None, 64),
        ),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "causal", (False, True)),
        ({"is_causal": True}, "causal", (True, True)),
        ({"is_neox_style": False}, "neox", False),
        ({"final_logit_softcapping": 30.0}, "softcap", 30.0),
        ({"input_embedding_scale": 8.0}, "embedding_scale", 8.0),
        ({"output_multiplier": 0.5}, "output_multiplier", 0.5),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_read_drafter_config_when_the_trainer_reads_a_field_then_the_drafter_has_it(
    changes: dict[str, Any], field: str, value: Any, tmp_path: Path
) -> None:
    assert getattr(read_drafter_config(write(tmp_path, **changes)), field) == value


def test_read_drafter_config_when_readers_differ_then_the_one_named_is_followed(tmp_path: Path) -> None:
    folder = write(tmp_path, dflash_config={"causal": True}, partial_rotary_factor=0.5)
    trained, engine = (read_drafter_config(folder, reader=name) for name in ("z-lab", "vllm"))
    assert (trained.causal, engine.causal) == ((False, False), (True, True))
    assert (trained.partial_rotary_factor, engine.partial_rotary_factor) == (1.0, 0.5)
    assert engine.rotated_dims == 16


def test_read_drafter_config_when_rotary_is_scaled_then_keeps_how(tmp_path: Path) -> None:
    scaling = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}
    assert read_drafter_config(write(tmp_path, rope_parameters=scaling)).rope_scaling == scaling
    legacy = write(tmp_path, rope_scaling={"type": "linear", "factor": 2.0})
    assert read_drafter_config(legacy).rope_scaling["rope_type"] == "linear"
