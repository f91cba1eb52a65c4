"""Each shim does what it says to a live engine, and none of it is left once it is taken away."""

from __future__ import annotations

import inspect
import json
import os
import random
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from doctor_process import PAIR, require_vllm

from dflash_doctor.diagnosis.catalog import causes
from dflash_doctor.faults import shims
from dflash_doctor.faults.shims.catalog import ENGINE_DEFECTS, REPAIR_CONTEXT_KEY_NORM

SCRIPT = Path(__file__).parent / "decode_with_shims.py"
NUM_PROMPTS = 12

SLOWER = [
    ("taps_shifted", {"offset": 1}, 0.9),
    ("taps_shifted", {"offset": -1}, 0.95),
    ("query_positions_shifted", {"offset": 1}, 0.4),
    ("features_lag", {"num_tokens": 1}, 0.4),
    ("causal_flag_flipped", {"shown": True}, 1.0),
    ("context_head_hidden", {"num_tokens": 16}, 0.95),
    ("context_chunk_edges_hidden", {"every": 16, "num_tokens": 4}, 0.8),
    ("rejected_context_left", {"num_tokens": 7}, 0.7),
    ("previous_request_left", {"num_tokens": 32}, 0.8),
    ("head_replaced", {"how": "permuted", "seed": 1}, 0.4),
    ("head_replaced", {"how": "zero", "seed": 1}, 0.4),
    ("embedding_scaled", {"factor": 11.3}, 0.85),
    ("linear_zeroed", {"module": "layers.1.mlp.down_proj"}, 0.7),
    ("norm_filled", {"norms": ["q_norm", "k_norm"], "value": 1.0}, 0.9),
    ("hidden_norm_skipped", {"factor": 1.0}, 0.6),
    ("mask_token_replaced", {"token_id": 2}, 0.5),
    ("rotary_base_changed", {"base": 1000.0}, 0.5),
    ("rotary_interleaved", {"context": True}, 0.4),
    ("rotary_partial", {"fraction": 0.5}, 0.4),
    ("batch_mixes_drafts", {"num_requests": 4}, 0.5),
    ("drafts_fail_at_times", {"every": 10, "num_steps": 5}, 0.85),
    ("drafts_end_at_length", {"num_tokens": 64, "whole_batch": False}, 0.7),
    ("drafts_shifted", {"offset": -1}, 0.4),
    ("drafts_constant", {"step": 1}, 0.4),
    ("draft_ids_unmapped", {"first_id": 512, "by": 256}, 0.8),
]
"""Shim, its parameters, and the share of the healthy acceptance length that it leaves at most.

Output is the target's all the same.
"""

LOSSY: list[tuple[str, dict[str, Any]]] = [
    ("verification_keeps_more", {"num_tokens": 2, "rate": 1.0, "seed": 1}),
    ("recovered_token_misplaced", {"offset": 1, "num_accepted": 0}),
    ("stop_token_lost", {"token_id": 2, "num_accepted": 1}),
]
"""Shims under which the output is no longer the target's."""

REPAIR = ("repair_context_key_norm", {})


def cases() -> list[tuple[str, dict[str, Any]]]:
    return [(name, parameters) for name, parameters, _ in SLOWER] + LOSSY + [REPAIR]


def key(name: str, parameters: dict[str, Any]) -> str:
    return f"{name} {json.dumps(parameters)}"


def decode(
    draft: Path, cases: list[tuple[str, dict[str, Any]]], at_start: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """What `decode_with_shims.py` prints, by name and parameters."""
    specification = {
        "target": str(PAIR / "target"),
        "draft": str(draft),
        "prompts": str(PAIR / "prompts.jsonl"),
        "num_prompts": NUM_PROMPTS,
        "max_tokens": 32,
        "shims": at_start,
        "cases": cases,
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), json.dumps(specification)],
        capture_output=True,
        text=True,
        env=dict(os.environ, VLLM_LOGGING_LEVEL="ERROR"),
        timeout=1800,
    )
    lines = [line.removeprefix("RESULT ") for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert done.returncode == 0, [*lines[-1:], done.stderr[-3000:]]
    found = [json.loads(line) for line in lines]
    return {key(item["name"], item["parameters"]): item for item in found}


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    """All cases, one after the other on one engine."""
    require_vllm()
    return decode(PAIR / "draft", cases(), {})


def ids_of(table: list[Any]) -> list[str]:
    return ["-".join([row[0], *map(str, row[1].values())]) for row in table]


@pytest.mark.engine
@pytest.mark.parametrize(("name", "parameters", "share"), SLOWER, ids=ids_of(SLOWER))
def test_shim_when_it_spoils_drafts_then_acceptance_falls_and_output_stays(
    results: dict[str, dict[str, Any]], name: str, parameters: dict[str, Any], share: float
) -> None:
    healthy = results[key("healthy", {})]["with_shim"]
    spoilt = results[key(name, parameters)]["with_shim"]
    assert spoilt["acceptance_length"] < share * healthy["acceptance_length"]
    assert spoilt["num_equal_outputs"] == NUM_PROMPTS


@pytest.mark.engine
@pytest.mark.parametrize(("name", "parameters"), LOSSY, ids=ids_of(LOSSY))
def test_shim_when_it_spoils_verification_then_output_is_another(
    results: dict[str, dict[str, Any]], name: str, parameters: dict[str, Any]
) -> None:
    assert results[key(name, parameters)]["with_shim"]["num_equal_outputs"] < NUM_PROMPTS


@pytest.mark.engine
def test_shim_when_a_stop_token_is_lost_then_the_text_is_longer(results: dict[str, dict[str, Any]]) -> None:
    longer = results[key(*LOSSY[-1])]["with_shim"]["num_output_tokens"]
    assert longer > results[key("healthy", {})]["with_shim"]["num_output_tokens"]


@pytest.mark.engine
def test_shim_when_the_key_norm_is_repaired_then_drafts_change_and_output_stays(
    results: dict[str, dict[str, Any]],
) -> None:
    healthy = results[key("healthy", {})]["with_shim"]
    repaired = results[key(*REPAIR)]["with_shim"]
    assert not repaired["same_steps"]
    assert repaired["acceptance_length"] > 0.98 * healthy["acceptance_length"]
    assert repaired["num_equal_outputs"] == NUM_PROMPTS


@pytest.mark.engine
@pytest.mark.parametrize(("name", "parameters"), cases(), ids=ids_of(cases()))
def test_uninstall_when_called_then_every_step_is_the_healthy_one_again(
    results: dict[str, dict[str, Any]], name: str, parameters: dict[str, Any]
) -> None:
    result = results[key(name, parameters)]
    assert not result["with_shim"]["same_steps"]
    assert result["after"]["same_steps"]
    assert result["after"]["num_equal_outputs"] == NUM_PROMPTS


def sharpened(folder: Path) -> Path:
    """A drafter that is the same function, with query and key norms scaled against each other.

    The factors are powers of two, exact in bf16, and differ by layer: an engine that normalises the keys of
    all layers with one layer's weight is far off here.
    """
    from safetensors.torch import load_file, save_file

    folder.mkdir()
    (folder / "config.json").write_bytes((PAIR / "draft" / "config.json").read_bytes())
    tensors = load_file(PAIR / "draft" / "model.safetensors")
    for layer, factor in enumerate((0.5, 2.0)):
        tensors[f"layers.{layer}.self_attn.q_norm.weight"] *= factor
        tensors[f"layers.{layer}.self_attn.k_norm.weight"] /= factor
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.engine
def test_engine_options_when_they_name_the_repair_then_it_is_on_from_the_start(
    results: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    first = decode(sharpened(tmp_path / "sharp"), [], {"repair_context_key_norm": {}})
    acceptance = first[key("healthy", {})]["with_shim"]["acceptance_length"]
    repaired = results[key(*REPAIR)]["with_shim"]["acceptance_length"]
    assert acceptance == pytest.approx(repaired, abs=0.02)


def draft_config() -> dict[str, Any]:
    config: dict[str, Any] = json.loads((PAIR / "draft" / "config.json").read_text())
    return config


@pytest.mark.parametrize("defect", ENGINE_DEFECTS, ids=lambda defect: defect.name)
def test_defect_when_drawn_then_the_seed_decides_and_the_parameters_fit(defect: Any) -> None:
    specimens = [defect.shim(random.Random(seed), draft_config()) for seed in range(20)]
    assert specimens == [defect.shim(random.Random(seed), draft_config()) for seed in range(20)]
    assert len({json.dumps(shim.parameters) for shim in specimens}) > 1, "another seed, another defect"
    for shim in specimens:
        module, _, function = shim.install.partition(":")
        inspect.signature(getattr(import_module(module), function)).bind(object(), **shim.parameters)


def test_catalog_when_compared_with_the_folder_then_names_every_shim_and_known_causes() -> None:
    folder = Path(shims.__file__).parent
    not_defects = {"__init__", "catalog", "live", "rotary", "repair_context_key_norm"}
    files = {path.stem for path in folder.glob("*.py")} - not_defects
    assert files == {defect.name for defect in ENGINE_DEFECTS}
    assert len(ENGINE_DEFECTS) == len(files)
    for defect in ENGINE_DEFECTS:
        assert set(defect.causes) <= set(causes()), defect.name
    assert REPAIR_CONTEXT_KEY_NORM.install.startswith(shims.__name__)


def test_shims_when_listed_then_each_is_tried_on_the_engine() -> None:
    assert {name for name, _ in cases()} == {defect.name for defect in ENGINE_DEFECTS} | {REPAIR[0]}
