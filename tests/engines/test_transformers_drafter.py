"""A z-lab drafter becomes a Transformers one with every tensor and every field accounted for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.engines.transformers_drafter import load_drafter, require_drafter_config, require_fits
from dflash_doctor.errors import EngineError, UsageError

DRAFT = bundled_fixtures() / "tiny_pair" / "draft"
CONFIG: dict[str, Any] = json.loads((DRAFT / "config.json").read_text())


@pytest.fixture
def torch() -> Any:
    pytest.importorskip("transformers", reason="the drafter is a Transformers model")
    return pytest.importorskip("torch", reason="the drafter is a torch model")


def write_config(folder: Path, config: dict[str, Any]) -> str:
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def write_draft(folder: Path, *, config: dict[str, Any] | None = None, **changes: Any) -> str:
    """The bundled drafter with other tensors (`None` leaves one out; dots are written `__`)."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(DRAFT / "model.safetensors")
    for name, change in changes.items():
        key = name.replace("__", ".")
        if change is None:
            del tensors[key]
        else:
            tensors[key] = change
    save_file(tensors, folder / "model.safetensors")
    return write_config(folder, CONFIG if config is None else config)


def without(*names: str) -> dict[str, Any]:
    """The config without these fields, nested or not."""
    kept = {key: value for key, value in CONFIG.items() if key not in names}
    nested = {key: value for key, value in CONFIG["dflash_config"].items() if key not in names}
    return {**kept, "dflash_config": nested}


@pytest.mark.parametrize("name", ["block_size", "mask_token_id", "target_layer_ids"])
def test_require_drafter_config_when_a_field_is_missing_then_names_it(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no DFlash drafter") as raised:
        require_drafter_config(write_config(tmp_path, without(name)))
    assert raised.value.seen.endswith(f"config.json has no usable {name}")


@pytest.mark.parametrize("value", [0, -1, True, "8", 8.0])
def test_require_drafter_config_when_the_block_size_is_no_count_then_names_it(
    value: Any, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="no DFlash drafter") as raised:
        require_drafter_config(write_config(tmp_path, {**CONFIG, "block_size": value}))
    assert raised.value.seen.endswith("block_size")


def test_require_drafter_config_when_it_is_in_the_speculators_layout_then_says_so(tmp_path: Path) -> None:
    config = {"speculators_model_type": "dflash", "aux_hidden_state_layer_ids": [2, 4, 5], "block_size": 8}
    with pytest.raises(UsageError, match="speculators layout"):
        require_drafter_config(write_config(tmp_path, config))


def flat(config: dict[str, Any]) -> dict[str, Any]:
    return {**without("dflash_config"), **config["dflash_config"]}


def all_nested(config: dict[str, Any]) -> dict[str, Any]:
    nested = {**config["dflash_config"], "block_size": config["block_size"]}
    return {**without("block_size"), "dflash_config": nested}


@pytest.mark.parametrize("move", [flat, all_nested, dict])
def test_load_drafter_when_fields_stand_nested_or_flat_then_loads_the_same(
    move: Callable[[dict[str, Any]], dict[str, Any]], tmp_path: Path, torch: Any
) -> None:
    folder = write_draft(tmp_path, config=move(CONFIG))
    drafter = load_drafter(folder, num_speculative_tokens=None, dtype=torch.float32)
    config = drafter.model.config
    assert (drafter.block_size, drafter.num_spec_tokens) == (8, 7)
    assert (config.mask_token_id, list(config.target_layer_ids)) == (3, [1, 3, 4])
    assert config.layer_types == ["full_attention"] * 2
    assert config.rope_parameters["rope_theta"] == 10000.0
    assert drafter.differences == ()
    assert not drafter.model.training


def test_load_drafter_when_loaded_then_every_parameter_is_the_files(torch: Any) -> None:
    from safetensors.torch import load_file

    drafter = load_drafter(str(DRAFT), num_speculative_tokens=None, dtype=torch.float32)
    loaded = drafter.model.state_dict()
    stored = load_file(DRAFT / "model.safetensors")
    assert len(loaded) == len(stored)
    assert torch.equal(loaded["encoder.fc.weight"], stored["fc.weight"].float())
    assert torch.equal(loaded["encoder.output_norm_enc.weight"], stored["hidden_norm.weight"].float())
    same = [name for name in stored if name in loaded and torch.equal(loaded[name], stored[name].float())]
    assert len(same) == len(stored) - 2


@pytest.mark.parametrize("num_tokens", [1, 3, 12])
def test_load_drafter_when_k_is_given_then_the_model_drafts_it_and_the_config_stays_known(
    num_tokens: int, torch: Any
) -> None:
    drafter = load_drafter(str(DRAFT), num_speculative_tokens=num_tokens, dtype=torch.float32)
    assert drafter.model.config.block_size == num_tokens + 1
    assert (drafter.num_spec_tokens, drafter.block_size) == (num_tokens, 8)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fc__weight": None}, r"missing.*encoder\.fc\.weight"),
        ({"layers__1__mlp__down_proj__weight": None}, r"missing.*layers\.1\.mlp\.down_proj\.weight"),
        ({"lm_head__weight": (4, 4)}, r"unknown.*lm_head\.weight"),
        ({"norm__weight": (64,)}, r"wrong shape.*norm\.weight \(64,\) instead of \(128,\)"),
    ],
)
def test_load_drafter_when_a_tensor_does_not_fit_then_names_it(
    changes: dict[str, Any], words: str, tmp_path: Path, torch: Any
) -> None:
    made = {name: None if shape is None else torch.zeros(shape) for name, shape in changes.items()}
    folder = write_draft(tmp_path, **made)
    with pytest.raises(EngineError, match=f"(?s){words}"):
        load_drafter(folder, num_speculative_tokens=None, dtype=torch.float32)


def test_load_drafter_when_there_are_no_weights_or_damaged_ones_then_says_so(
    tmp_path: Path, torch: Any
) -> None:
    folder = write_config(tmp_path, CONFIG)
    with pytest.raises(UsageError, match="has no weights"):
        load_drafter(folder, num_speculative_tokens=None, dtype=torch.float32)
    (tmp_path / "model.safetensors").write_bytes((DRAFT / "model.safetensors").read_bytes()[:1000])
    with pytest.raises(UsageError, match="cannot be read"):
        load_drafter(folder, num_speculative_tokens=None, dtype=torch.float32)


@pytest.mark.parametrize(
    "change", [{"num_hidden_layers": "two"}, {"layer_types": ["strange", "strange"]}, {"hidden_act": "none"}]
)
def test_load_drafter_when_the_config_does_not_fit_the_class_then_says_so(
    change: dict[str, Any], tmp_path: Path, torch: Any
) -> None:
    folder = write_draft(tmp_path, config={**CONFIG, **change})
    with pytest.raises(UsageError, match="does not fit Transformers' DFlash class"):
        load_drafter(folder, num_speculative_tokens=None, dtype=torch.float32)


@pytest.mark.parametrize(
    ("config", "theta", "kind"),
    [
        ({**without("rope_parameters"), "rope_theta": 5e5}, 5e5, "default"),
        ({**CONFIG, "rope_theta": 5.0}, 1e4, "default"),
        (without("rope_parameters", "rope_theta"), 1e4, "default"),
        (
            {**without("rope_parameters"), "rope_scaling": {"type": "linear", "factor": 2.0}},
            1e4,
            "linear",
        ),
    ],
)
def test_load_drafter_when_rope_is_written_in_an_older_form_then_means_the_same(
    config: dict[str, Any], theta: float, kind: str, tmp_path: Path, torch: Any
) -> None:
    drafter = load_drafter(
        write_draft(tmp_path, config=config), num_speculative_tokens=None, dtype=torch.float32
    )
    rope = drafter.model.config.rope_parameters
    assert (rope["rope_theta"], rope["rope_type"]) == (theta, kind)


SLIDING = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 64}
CAUSAL = "layer {} is causal in the config and bidirectional here"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (SLIDING, (CAUSAL.format(0),)),
        ({**SLIDING, "is_causal": False}, ()),
        ({"is_causal": True}, (CAUSAL.format(0), CAUSAL.format(1))),
        ({"output_multiplier": 0.5}, ("output_multiplier=0.5 is not applied",)),
        ({"output_multiplier": 1.0}, ()),
    ],
)
def test_load_drafter_when_the_config_asks_for_more_then_says_what_is_done_otherwise(
    change: dict[str, Any], expected: tuple[str, ...], tmp_path: Path, torch: Any
) -> None:
    folder = write_draft(tmp_path, config={**CONFIG, **change})
    assert load_drafter(folder, num_speculative_tokens=None, dtype=torch.float32).differences == expected


def test_load_drafter_when_given_a_hub_id_then_downloads_config_and_weights_only(
    monkeypatch: pytest.MonkeyPatch, torch: Any
) -> None:
    import huggingface_hub

    asked: list[Any] = []

    def download(name: str, *, allow_patterns: list[str]) -> str:
        asked.append((name, allow_patterns))
        return str(DRAFT)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    drafter = load_drafter("owner/draft", num_speculative_tokens=None, dtype=torch.float32)
    assert drafter.block_size == 8
    assert asked == [("owner/draft", ["*.json", "*.safetensors"])]


def test_load_drafter_when_the_download_fails_then_names_the_id_and_the_reason(
    monkeypatch: pytest.MonkeyPatch, torch: Any
) -> None:
    import huggingface_hub

    def download(name: str, **rest: Any) -> str:
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(UsageError, match="cannot be downloaded") as raised:
        load_drafter("owner/draft", num_speculative_tokens=None, dtype=torch.float32)
    assert raised.value.seen == "owner/draft: ConnectionError: no route"


def a_target(*, layers: int = 6, hidden: int = 128, rows: int = 1024) -> Any:
    config = SimpleNamespace(num_hidden_layers=layers, hidden_size=hidden)
    config.get_text_config = lambda: config
    embedding = SimpleNamespace(weight=SimpleNamespace(shape=(rows, hidden)))
    return SimpleNamespace(config=config, get_input_embeddings=lambda: embedding)


def test_require_fits_when_the_target_is_its_own_then_says_nothing(torch: Any) -> None:
    require_fits(load_drafter(str(DRAFT), num_speculative_tokens=None, dtype=torch.float32), a_target())


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ({"layers": 4}, r"target_layer_ids \[4\] of a target with 4 layers"),
        ({"hidden": 64}, "hidden_size 128, the target's is 64"),
        ({"rows": 3}, "mask_token_id 3, the target's embedding has 3 rows"),
    ],
)
def test_require_fits_when_the_target_is_another_then_names_what_differs(
    shape: dict[str, int], words: str, torch: Any
) -> None:
    drafter = load_drafter(str(DRAFT), num_speculative_tokens=None, dtype=torch.float32)
    with pytest.raises(UsageError, match=words):
        require_fits(drafter, a_target(**shape))
