"""Settings come from one table, in a fixed order of precedence, and misfits name what fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dflash_doctor.errors import UsageError
from dflash_doctor.settings import Settings, options, resolve


def test_resolve_when_nothing_is_given_then_defaults_stand(tmp_path: Path) -> None:
    resolved = resolve(environ={}, folder=tmp_path)
    assert resolved.settings == Settings()
    assert set(resolved.origins.values()) == {"default"}


def test_resolve_when_every_source_speaks_then_the_nearest_wins(tmp_path: Path) -> None:
    (tmp_path / "dflash-doctor.toml").write_text('max-tokens = 10\nseed = 1\nthinking = "on"\n')
    environ = {"DFLASH_DOCTOR_MAX_TOKENS": "20", "DFLASH_DOCTOR_SEED": "2", "OTHER": "x"}
    resolved = resolve({"max_tokens": "30", "seed": None}, environ=environ, folder=tmp_path)
    assert (resolved.settings.max_tokens, resolved.settings.seed, resolved.settings.thinking) == (30, 2, "on")
    assert resolved.origins["max_tokens"] == "command line"
    assert resolved.origins["seed"] == "DFLASH_DOCTOR_SEED"
    assert resolved.origins["thinking"].endswith("dflash-doctor.toml")


def test_resolve_when_a_parent_has_a_pyproject_then_its_table_is_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.dflash-doctor]\nmax-prompts = 5\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert resolve(environ={}, folder=below).settings.max_prompts == 5


def test_resolve_when_a_file_above_names_paths_then_they_start_at_its_folder(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.dflash-doctor]\ntarget = "pair/target"\ndraft = "owner/draft"\nprompts = "set.jsonl"\n'
        'output = "runs/one"\nenvironment-lock = "../lock.json"\n'
    )
    below = tmp_path / "a"
    below.mkdir()
    (tmp_path / "pair" / "target").mkdir(parents=True)
    settings = resolve(environ={}, folder=below).settings
    assert settings.target == str(tmp_path / "pair" / "target")
    assert settings.draft == "owner/draft", "a hub id, for no such path is there"
    assert settings.prompts == str(tmp_path / "set.jsonl")
    assert settings.output == str(tmp_path / "runs" / "one")
    assert settings.environment_lock == str(tmp_path / ".." / "lock.json")


def test_resolve_when_a_named_file_has_a_dotted_path_then_it_is_never_a_hub_id(tmp_path: Path) -> None:
    config = tmp_path / "sub" / "own.toml"
    config.parent.mkdir()
    config.write_text('target = "./models/target"\ndraft = "../draft"\n')
    settings = resolve(config=config, environ={"DFLASH_DOCTOR_PROMPTS": "p.jsonl"}, folder=tmp_path).settings
    assert settings.target == str(config.parent / "models/target")
    assert settings.draft == str(config.parent / "../draft")
    assert settings.prompts == "p.jsonl", "only a file's paths are its own"


def test_resolve_when_both_files_are_there_then_only_the_toml_counts(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.dflash-doctor]\nmax-prompts = 5\nseed = 1\n")
    (tmp_path / "dflash-doctor.toml").write_text("seed = 2\n")
    settings = resolve(environ={}, folder=tmp_path).settings
    assert (settings.seed, settings.max_prompts) == (2, None)


def test_resolve_when_a_list_comes_from_text_or_a_file_then_is_a_tuple(tmp_path: Path) -> None:
    (tmp_path / "dflash-doctor.toml").write_text('engine-arg = ["a=1", "b=2"]\n')
    assert resolve(environ={}, folder=tmp_path).settings.engine_arg == ("a=1", "b=2")
    environ = {"DFLASH_DOCTOR_ENGINE_ARG": "a=1, b=2"}
    assert resolve(environ=environ, folder=tmp_path).settings.engine_arg == ("a=1", "b=2")


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ({"max_tokens": "many"}, "one int"),
        ({"max_tokens": "0"}, "at least 1"),
        ({"max_tokens": 1.5}, "a whole number"),
        ({"temperature": "-1"}, "at least 0"),
        ({"temperature": "nan"}, "a number"),
        ({"engine": "vlm"}, "vllm or transformers or replay"),
        ({"thinking": "maybe"}, "off or on or template"),
        ({"seed": True}, "one int"),
        ({"seed": [1]}, "one int"),
        ({"engine_arg": 3}, "a list"),
    ],
)
def test_resolve_when_a_value_does_not_fit_then_says_what_does(given: dict[str, Any], fits: str) -> None:
    with pytest.raises(UsageError) as raised:
        resolve(given, environ={})
    assert fits in raised.value.remedy
    assert "--" + next(iter(given)).replace("_", "-") in raised.value.what


def test_resolve_when_a_key_is_unknown_then_lists_the_valid_ones(tmp_path: Path) -> None:
    (tmp_path / "dflash-doctor.toml").write_text("max-tokns = 5\n")
    for arguments in (
        {"folder": tmp_path, "environ": {}},
        {"folder": tmp_path / "x", "environ": {"DFLASH_DOCTOR_MAX_TOKNS": "5"}},
    ):
        with pytest.raises(UsageError, match="unknown setting") as raised:
            resolve(**arguments)
        assert "max_tokens" in raised.value.remedy


@pytest.mark.parametrize("text", ["max-tokens = ", "\xff", "[tool]\n"])
def test_resolve_when_the_config_file_is_bad_then_names_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError):
        resolve(config=path, environ={})
    with pytest.raises(UsageError, match="does not exist"):
        resolve(config=tmp_path / "none.toml", environ={})


def test_options_when_read_then_every_setting_is_explained() -> None:
    assert len(options()) == len(Settings.__dataclass_fields__)
    for item in options():
        assert item.help.endswith(".")
        assert item.flag.startswith("--")
