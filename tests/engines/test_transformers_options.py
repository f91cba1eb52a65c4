"""What the transformers engine is given is checked at once, without torch."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.engines.base import EngineOptions
from dflash_doctor.engines.transformers_options import (
    TransformersArguments,
    check_options,
    read_arguments,
)
from dflash_doctor.errors import EngineMissingError, UsageError

PAIR = bundled_fixtures() / "tiny_pair"
GOOD = EngineOptions(target=str(PAIR / "target"), draft=str(PAIR / "draft"))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch and Transformers count as installed wherever the tests run."""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9")


def test_read_arguments_when_nothing_is_given_then_leaves_the_choice_to_the_checkpoint() -> None:
    assert read_arguments({}) == TransformersArguments(
        dtype="auto", device=None, attn_implementation=None, trust_remote_code=False
    )


def test_read_arguments_when_an_argument_is_unknown_then_lists_the_valid_ones() -> None:
    with pytest.raises(UsageError, match="no such argument") as raised:
        read_arguments({"dtyp": "float32"})
    assert raised.value.seen == "--engine-arg dtyp=..."
    assert raised.value.remedy == "valid: dtype, device, attn_implementation, trust_remote_code"


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("dtype", "float33", "bfloat16"),
        ("dtype", None, "bfloat16"),
        ("trust_remote_code", "yes", "true or false"),
        ("device", 0, "a name"),
        ("attn_implementation", False, "a name"),
    ],
)
def test_read_arguments_when_a_value_does_not_fit_then_says_what_does(
    name: str, value: Any, wanted: str
) -> None:
    with pytest.raises(UsageError, match=f"argument {name} has a value") as raised:
        read_arguments({name: value})
    assert str(value) in raised.value.seen
    assert wanted in raised.value.remedy


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"method": "eagle3"}, "speculates with DFlash only"),
        ({"draft": None}, "no drafter was named"),
        ({"draft": str(PAIR / "target")}, "the draft model is no DFlash drafter"),
        ({"draft": "missing"}, "the draft model does not exist"),
        ({"target": "missing"}, "the target model does not exist"),
    ],
)
def test_check_options_when_the_pair_does_not_fit_then_says_what(change: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        check_options(msgspec.structs.replace(GOOD, **change))


@pytest.mark.usefixtures("installed")
def test_check_options_when_the_arm_is_target_only_then_asks_for_no_drafter() -> None:
    assert check_options(EngineOptions(target=GOOD.target, arm="target-only", method="none"))


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_check_options_when_a_package_is_missing_then_names_the_extra(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if name == package:
            raise importlib.metadata.PackageNotFoundError(name)
        return "9.9"

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(EngineMissingError, match=f"{package} is not installed") as raised:
        check_options(GOOD)
    assert raised.value.remedy == "pip install 'dflash-doctor[reference]'"


def test_check_options_when_the_draft_is_wrong_then_torch_was_not_imported() -> None:
    script = f"""
import importlib.metadata, sys
importlib.metadata.version = lambda name: "9.9"
from dflash_doctor.engines import transformers_native
from dflash_doctor.engines.base import EngineOptions
from dflash_doctor.errors import UsageError
try:
    transformers_native.open_engine(EngineOptions(target={GOOD.target!r}, draft={GOOD.target!r}))
except UsageError:
    print(sorted({{"torch", "transformers", "safetensors"}} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
