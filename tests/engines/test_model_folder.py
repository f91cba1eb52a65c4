"""A model argument is refused before anything heavy is imported, in three parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.engines.model_folder import require_model_folder
from dflash_doctor.errors import UsageError

PAIR = bundled_fixtures() / "tiny_pair"


def a_file(folder: Path) -> str:
    (folder / "model").write_text("{}")
    return str(folder / "model")


def an_empty_folder(folder: Path) -> str:
    return str(folder)


def a_folder_without_config(folder: Path) -> str:
    (folder / "model.safetensors").write_bytes(b"")
    return str(folder)


def a_damaged_config(folder: Path) -> str:
    (folder / "config.json").write_text("{")
    return str(folder)


def a_config_that_is_a_list(folder: Path) -> str:
    (folder / "config.json").write_text("[]")
    return str(folder)


BAD: list[tuple[Callable[[Path], str], str, str]] = [
    (lambda folder: str(folder / "none"), "the draft model does not exist", "none"),
    (lambda folder: "", "the draft model does not exist", "''"),
    (lambda folder: "./owner/name", "the draft model does not exist", "./owner/name"),
    (lambda folder: "owner/name/more", "the draft model does not exist", "owner/name/more"),
    (lambda folder: "x" * 5000, "the draft model cannot be read", "too long"),
    (a_file, "the draft model is not a folder", "model"),
    (an_empty_folder, "the draft model is not a checkpoint", "holds nothing"),
    (a_folder_without_config, "the draft model is not a checkpoint", "holds model.safetensors"),
    (a_damaged_config, "the checkpoint's config cannot be read", "config.json: "),
    (a_config_that_is_a_list, "the checkpoint's config cannot be read", "not an object"),
]


@pytest.mark.parametrize(("make", "what", "seen"), BAD)
def test_require_model_folder_when_it_is_no_checkpoint_then_says_so_in_three_parts(
    make: Callable[[Path], str], what: str, seen: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as raised:
        require_model_folder(make(tmp_path), role="draft")
    assert raised.value.what == what
    assert seen in raised.value.seen
    assert raised.value.remedy


def test_require_model_folder_when_the_owner_is_a_folder_here_then_it_is_a_mistyped_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pair" / "target").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as raised:
        require_model_folder("pair/traget", role="target")
    assert raised.value.remedy.startswith("did you mean pair/target?")


@pytest.mark.parametrize("model", [str(PAIR / "target"), "z-lab/Qwen3-4B-DFlash-b16", "owner_1/name.v2"])
def test_require_model_folder_when_it_is_a_checkpoint_or_a_hub_id_then_lets_it_through(model: str) -> None:
    require_model_folder(model, role="target")
