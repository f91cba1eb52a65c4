"""Every field of a config, where it came from, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from checkpoint_files import as_file
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.checkpoints.dialects.base import COMMON
from dflash_doctor.checkpoints.json_file import JsonFile
from dflash_doctor.checkpoints.normal_form import draft_config, line_of, lookup, target_config
from dflash_doctor.contract.pair import DraftConfig, Problem, Quantization, TargetConfig


def draft(config: dict[str, Any]) -> tuple[DraftConfig, tuple[Problem, ...]]:
    found, problems = draft_config(as_file(config))
    assert found is not None
    return found, problems


def target(config: dict[str, Any]) -> tuple[TargetConfig, tuple[Problem, ...]]:
    found, problems = target_config(as_file(config))
    assert found is not None
    return found, problems


def nest(path: str, value: Any) -> dict[str, Any]:
    """A config that states this value at this path; numbers make lists."""
    for part in reversed(path.split(".")):
        value = [value] if part.isdigit() else {part: value}
    assert isinstance(value, dict)
    return value


VALUES: dict[type, Any] = {
    int: 7, float: 0.5, bool: True, str: "name", tuple[int, ...]: [1, 9], tuple[str, ...]: ["full_attention"],
}  # fmt: skip


def a_value(name: str) -> Any:
    """A value of the field's type."""
    kind = next(item.type for item in msgspec.structs.fields(DraftConfig) if item.name == name)
    return next(value for plain, value in VALUES.items() if kind in (plain, plain | None))


EVERY_PATH = [(name, path) for name, paths in COMMON.items() for path in paths]


@pytest.mark.parametrize(("name", "path"), EVERY_PATH, ids=[path for _, path in EVERY_PATH])
def test_draft_config_when_a_field_is_stated_then_holds_its_value_path_and_line(name: str, path: str) -> None:
    config = nest(path, a_value(name))
    found, problems = draft(config)
    assert problems == ()
    assert found.sources[name] == path
    expected = a_value(name)
    assert getattr(found, name) == (tuple(expected) if isinstance(expected, list) else expected)
    assert line_of(as_file(config).lines, path) is not None


@pytest.mark.parametrize(("name", "path"), EVERY_PATH, ids=[path for _, path in EVERY_PATH])
def test_draft_config_when_a_field_has_another_type_then_says_where_and_keeps_the_rest(
    name: str, path: str
) -> None:
    wrong: Any = {"a": 1}
    config: dict[str, Any] = nest(path, wrong)
    config["zzz"] = 1
    other = "block_size" if name != "block_size" else "draft_vocab_size"
    config[other] = 64
    found, problems = draft(config)
    named = [item for item in problems if item.field == path]
    assert len(named) == 1
    assert named[0].severity == "error"
    assert named[0].file == "config.json"
    assert named[0].what == f"{path} is not what it should be"
    assert named[0].line == line_of(as_file(config).lines, path)
    assert named[0].line is not None
    assert getattr(found, name) is None
    assert getattr(found, other) == 64


@pytest.mark.parametrize(
    ("config", "name", "value", "source"),
    [
        ({"block_size": 16, "dflash_config": {"block_size": 8}}, "block_size", 8, "dflash_config.block_size"),
        (
            {"mask_token_id": 1, "dflash_config": {"mask_token_id": 2}},
            "mask_token_id",
            2,
            "dflash_config.mask_token_id",
        ),
        ({"mask_token_id": [5, 6]}, "mask_token_id", 5, "mask_token_id"),
        ({"dtype": "float16", "torch_dtype": "bfloat16"}, "dtype", "float16", "dtype"),
        ({"rope_scaling": {"type": "yarn"}}, "rope_type", "yarn", "rope_scaling.type"),
        ({"rope_theta": 10000000}, "rope_theta", 1e7, "rope_theta"),
        ({"dflash_config": {"use_swa": True}}, "use_swa", True, "dflash_config.use_swa"),
        ({"markov_rank": 8, "dspark_block_size": 7}, "block_size", 7, "dspark_block_size"),
        ({"markov_rank": 8, "dspark_noise_token_id": 9}, "mask_token_id", 9, "dspark_noise_token_id"),
        (
            {"markov_rank": 8, "target_layer_ids": [1], "dspark_target_layer_ids": [2]},
            "target_layer_ids",
            (2,),
            "dspark_target_layer_ids",
        ),
        (
            {"model_type": "laguna", "num_target_layers": 9, "dflash_config": {"num_target_layers": 40}},
            "num_target_layers",
            40,
            "dflash_config.num_target_layers",
        ),
    ],
)  # fmt: skip
def test_draft_config_when_several_places_state_a_field_then_the_first_counts(
    config: dict[str, Any], name: str, value: Any, source: str
) -> None:
    found, problems = draft(config)
    assert (getattr(found, name), found.sources[name]) == (value, source)
    is_twice = name in config and name in config.get("dflash_config", {})
    expected = [f"{name} stands in two places with two values"] if is_twice else []
    assert [item.what for item in problems] == expected


def test_draft_config_when_two_places_agree_then_nothing_is_said() -> None:
    config = {"block_size": 8, "dflash_config": {"block_size": 8}}
    assert draft(config)[1] == ()
    config["block_size"] = 16
    (problem,) = draft(config)[1]
    assert (problem.severity, problem.field) == ("warning", "dflash_config.block_size")
    assert problem.seen == "dflash_config.block_size 8; block_size 16"
    assert problem.line == line_of(as_file(config).lines, "dflash_config.block_size")


def test_draft_config_when_speculators_wrote_no_decoder_then_says_so() -> None:
    (problem,) = draft({"speculators_model_type": "dflash", "block_size": 8})[1]
    assert problem.what == "the sizes of the drafter's layers are missing"
    assert (problem.severity, problem.field) == ("error", "speculators_model_type")


def test_draft_config_when_use_swa_stands_at_top_level_then_is_left_out_as_engines_do() -> None:
    found, _ = draft({"use_swa": True, "swa_window_size": 512})
    assert (found.use_swa, found.swa_window_size) == (None, None)


def test_draft_config_when_speculators_wrote_it_then_reads_both_levels() -> None:
    config = {
        "speculators_model_type": "dflash",
        "hidden_size": 1,
        "aux_hidden_state_layer_ids": [2, 10],
        "block_size": 8,
        "draft_vocab_size": 32000,
        "speculators_config": {
            "proposal_methods": [{"speculative_tokens": 7}],
            "verifier": {"name_or_path": "Qwen/Qwen3-8B", "architectures": ["Qwen3ForCausalLM"]},
        },
        "transformer_layer_config": {
            "hidden_size": 4096,
            "num_hidden_layers": 5,
            "block_size": 99,
            "rope_parameters": {"rope_theta": 1e6},
            "torch_dtype": "bfloat16",
        },
    }
    found, problems = draft(config)
    assert problems == ()
    assert (found.hidden_size, found.num_layers, found.block_size) == (4096, 5, 8)
    assert found.aux_layer_ids == (2, 10)
    assert found.trained_taps == (1, 9)
    assert (found.proposed_tokens, found.draft_vocab_size, found.dtype) == (7, 32000, "bfloat16")
    assert (found.verifier_name, found.verifier_architecture) == ("Qwen/Qwen3-8B", "Qwen3ForCausalLM")
    assert found.sources["hidden_size"] == "transformer_layer_config.hidden_size"
    assert found.sources["nested_rope_theta"] == "transformer_layer_config.rope_parameters.rope_theta"
    assert line_of(as_file(config).lines, found.sources["proposed_tokens"]) is not None


def test_draft_config_when_gguf_metadata_is_read_then_dotted_keys_are_found() -> None:
    metadata = {
        "general.architecture": "dflash",
        "dflash.block_size": 16,
        "dflash.target_layers": [2, 10],
        "dflash.mask_token_id": 1,
        "tokenizer.ggml.mask_token_id": 151669,
        "dflash.attention.causal": True,
    }
    found, problems = draft_config(JsonFile(Path("m.gguf"), metadata))
    assert found is not None
    assert problems == ()
    assert (found.block_size, found.aux_layer_ids, found.mask_token_id) == (16, (2, 10), 151669)
    assert (found.is_causal, found.trained_taps) == (True, (1, 9))


@pytest.mark.parametrize(
    ("field", "value", "seen"),
    [
        ("hidden_size", 0, "0; it must be above zero"),
        ("hidden_size", -8, "-8; it must be above zero"),
        ("hidden_size", 0.5, "Expected `int"),
        ("hidden_size", 64.0, "Expected `int"),
        ("hidden_size", True, "Expected `int"),
        ("hidden_size", "4096", "Expected `int"),
        ("hidden_size", 10**30, "a number of 100 bits"),
        ("hidden_size", [4096], "Expected `int"),
        ("num_hidden_layers", 10**9, "1000000000; at most 10,000 layers are read"),
        ("rope_theta", float("nan"), "nan; it must be above zero"),
        ("rope_theta", float("inf"), "inf; it must be a finite number"),
        ("partial_rotary_factor", float("nan"), "nan; it must be a finite number"),
        ("is_causal", 1, "Expected `bool"),
        ("is_causal", "false", "Expected `bool"),
        ("layer_types", "full_attention", "Expected `array"),
        ("layer_types", ["x"] * 10_001, "10,001 entries; at most 10,000 are read"),
        ("layer_types", [1], "Expected `str`"),
        ("target_layer_ids", [1, "2"], "Expected `int`"),
        ("target_layer_ids", [10**30], "a number of 100 bits"),
        ("target_layer_ids", 5, "Expected `array"),
        ("model_type", "x" * 2000, "a text of 2,000 characters"),
        ("mask_token_id", [], "Expected `int"),
    ],
)
def test_draft_config_when_a_value_cannot_be_then_is_a_problem(field: str, value: Any, seen: str) -> None:
    found, problems = draft({"vocab_size": 9, field: value})
    (problem,) = problems
    assert (problem.field, problem.severity) == (field, "error")
    assert seen in problem.seen
    assert found.vocab_size == 9


@pytest.mark.parametrize("value", [3, "x", [1], True])
@pytest.mark.parametrize("key", ["dflash_config", "rope_parameters", "speculators_config", "text_config"])
def test_draft_config_when_an_object_is_something_else_then_says_so(key: str, value: Any) -> None:
    found, problems = draft({"block_size": 8, key: value})
    assert [(item.field, item.line) for item in problems] == [(key, 3)]
    assert found.block_size == 8


def test_draft_config_when_architectures_is_a_text_then_says_so() -> None:
    found, problems = draft({"architectures": "DFlashDraftModel"})
    assert [item.field for item in problems] == ["architectures"]
    assert found.architecture is None


def test_configs_when_file_could_not_be_read_then_give_none() -> None:
    assert draft_config(JsonFile(Path("x"))) == (None, ())
    assert target_config(JsonFile(Path("x"))) == (None, ())


@pytest.mark.parametrize("inner", ["text_config", "llm_config", "language_config"])
def test_target_config_when_multimodal_then_reads_the_text_part(inner: str) -> None:
    config = {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "hidden_size": 1,
        "tie_word_embeddings": False,
        inner: {
            "model_type": "qwen3_5_text",
            "hidden_size": 5120,
            "num_hidden_layers": 64,
            "layer_types": ["linear_attention", "full_attention"] * 32,
            "rope_parameters": {"rope_theta": 1e7, "partial_rotary_factor": 0.25},
        },
    }
    found, problems = target(config)
    assert problems == ()
    assert (found.hidden_size, found.num_layers, found.theta) == (5120, 64, 1e7)
    assert (found.architecture, found.model_type) == ("Qwen3_5ForConditionalGeneration", "qwen3_5_text")
    assert found.sources["hidden_size"] == f"{inner}.hidden_size"
    assert found.sources["tie_word_embeddings"] == "tie_word_embeddings"
    assert (found.is_recurrent, found.partial_rotary_factor) == (True, 0.25)


@pytest.mark.parametrize(
    ("config", "name", "value"),
    [
        ({"n_layer": 12, "n_head": 4}, "num_layers", 12),
        ({"n_layer": 12, "n_head": 4}, "num_heads", 4),
        ({"model_type": "gemma4_text"}, "scales_embedding", True),
        ({"model_type": "qwen3"}, "scales_embedding", False),
        ({"model_type": "glm4_moe"}, "interleaved_family", True),
        ({"architectures": ["DeepseekV3ForCausalLM"], "kv_lora_rank": 512}, "kv_lora_rank", 512),
        ({"architectures": ["DeepseekV3ForCausalLM"]}, "interleaved_family", True),
        ({"mamba_num_heads": 64}, "is_recurrent", True),
        ({"model_type": "llama"}, "is_recurrent", False),
        (
            {"rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {}}},
            "nested_rope_theta",
            1e6,
        ),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantization", Quantization(method="fp8")),
    ],
)
def test_target_config_when_a_family_spells_it_its_way_then_is_read(
    config: dict[str, Any], name: str, value: Any
) -> None:
    found, problems = target(config)
    assert problems == ()
    assert getattr(found, name) == value


def test_target_config_when_metadata_is_gguf_then_reads_the_keys_of_its_architecture() -> None:
    metadata = {
        "general.architecture": "qwen3",
        "qwen3.block_count": 36,
        "qwen3.embedding_length": 4096,
        "qwen3.rope.freq_base": 1e6,
        "llama.block_count": 1,
    }
    found, problems = target_config(JsonFile(Path("m.gguf"), metadata))
    assert found is not None
    assert problems == ()
    assert (found.model_type, found.num_layers, found.hidden_size, found.theta) == ("qwen3", 36, 4096, 1e6)


def test_target_config_when_a_field_has_another_type_then_says_where_and_keeps_the_rest() -> None:
    found, (problem,) = target({"hidden_size": 64, "vocab_size": "many"})
    assert (problem.field, problem.line) == ("vocab_size", 3)
    assert (found.hidden_size, found.vocab_size) == (64, None)


@pytest.mark.parametrize(
    ("path", "value"),
    [("a.b", 1), ("c.0", 5), ("c.1", None), ("d.e", 7), ("a.b.c", None), ("x", None), ("c.x", None)],
)
def test_lookup_when_path_is_given_then_descends(path: str, value: Any) -> None:
    assert lookup({"a": {"b": 1}, "c": [5], "d.e": 7}, path) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([part for paths in COMMON.values() for path in paths for part in path.split(".")])
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(config=st.dictionaries(st.sampled_from(sorted({path for _, path in EVERY_PATH})), JSON, max_size=8))
def test_configs_when_values_are_arbitrary_then_can_be_stored(config: dict[str, Any]) -> None:
    file = JsonFile(Path("config.json"), config)
    msgspec.json.encode(draft_config(file))
    msgspec.json.encode(target_config(file))
