"""The files of the bundled pair fit each other; its sums and prompts are tested in tests/workloads."""

from __future__ import annotations

import json
import struct
from typing import Any

from tokenizers import Tokenizer

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.tinypair.shape import PairShape
from dflash_doctor.tinypair.text import MASK

PAIR = bundled_fixtures() / "tiny_pair"


def config(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PAIR / name / "config.json").read_text())
    return found


def shapes(name: str) -> dict[str, list[int]]:
    """Tensor shapes from the safetensors header: 8 bytes of length, then JSON."""
    data = (PAIR / name / "model.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    assert {entry["dtype"] for key, entry in header.items() if key != "__metadata__"} == {"BF16"}
    return {key: entry["shape"] for key, entry in header.items() if key != "__metadata__"}


def test_configs_when_compared_then_the_drafter_fits_the_target() -> None:
    target, draft = config("target"), config("draft")
    taps = draft["dflash_config"]["target_layer_ids"]
    assert draft["num_target_layers"] == target["num_hidden_layers"]
    assert taps == sorted(set(taps))
    assert min(taps) >= 0
    assert max(taps) < target["num_hidden_layers"]
    for name in ("hidden_size", "vocab_size", "rope_parameters", "eos_token_id"):
        assert draft[name] == target[name], name
    assert draft["block_size"] == 8
    assert len(draft["layer_types"]) == draft["num_hidden_layers"]


def test_configs_when_compared_with_the_default_shape_then_are_what_the_builder_writes() -> None:
    shape = PairShape()
    assert config("target") == shape.target_config()
    assert config("draft") == shape.draft_config()


def test_tokenizers_when_compared_then_are_one_and_have_the_mask_token() -> None:
    one, other = (PAIR / name / "tokenizer.json" for name in ("target", "draft"))
    assert one.read_bytes() == other.read_bytes()
    tokenizer = Tokenizer.from_file(str(one))
    assert tokenizer.token_to_id("<|mask|>") == config("draft")["dflash_config"]["mask_token_id"] == MASK
    assert tokenizer.token_to_id("<|im_end|>") == config("target")["eos_token_id"]
    assert tokenizer.get_vocab_size() == config("target")["vocab_size"]


def test_weights_when_their_shapes_are_read_then_fit_the_configs() -> None:
    target, draft = shapes("target"), shapes("draft")
    hidden, taps = 128, config("draft")["dflash_config"]["target_layer_ids"]
    assert target["model.embed_tokens.weight"] == target["lm_head.weight"] == [1024, hidden]
    assert draft["fc.weight"] == [hidden, hidden * len(taps)]
    assert {name.split(".")[1] for name in draft if name.startswith("layers.")} == {"0", "1"}
    assert not [name for name in draft if "embed" in name or "head" in name]


def test_files_when_weighed_then_stay_below_five_megabytes() -> None:
    assert sum(file.stat().st_size for file in PAIR.rglob("*") if file.is_file()) < 5_000_000
