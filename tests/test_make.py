"""`make` installs once, installs again when a lock changes, and says what it cannot do.

Python is played by a script that writes down what it is asked, so nothing is installed here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENGINE_LOCK = Path("dflash_doctor") / "environment" / "cpu-engine.lock.txt"
COPIED = (
    Path("Makefile"),
    Path("pyproject.toml"),
    Path("dflash_doctor") / "__init__.py",
    ENGINE_LOCK,
    Path(".ci") / "package.lock.txt",
    Path(".ci") / "test.lock.txt",
)
FAKE_PYTHON = """#!/bin/sh
case "$*" in
  *version_info*) echo "${FAKE_VERSION:-3.11}"; exit ;;
  '-m venv'*)
    for folder; do :; done
    case "$*" in *--clear*) rm -rf "$folder" ;; esac
    mkdir -p "$folder/bin" && cp "$0" "$folder/bin/python" ;;
  *--extra-index-url*'torch=='*) ;;
  *'torch=='*) [ -z "$FAKE_NO_TORCH" ] || { echo "no torch here" >&2; exit 1; } ;;
esac
echo "$*" >> "$FAKE_LOG"
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


class Checkout:
    """The files that `make` reads, in a folder of their own, with a Python that only takes notes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        for name in COPIED:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.folder / name)
        self.python = folder / "python"
        self.python.write_text(FAKE_PYTHON)
        self.python.chmod(0o755)
        self.log = folder / "log"

    def make(self, *arguments: str, **variables: str) -> tuple[int, str, list[str]]:
        """Exit code, everything printed, and what Python was asked to do."""
        self.log.write_text("")
        # The suite itself may run under `make test VENV=...`, which hands its variables down.
        handed_down = ("MAKE", "MFLAGS", "VENV", "PYTHON", "TORCH_INDEX", "PYTEST_ARGS")
        outer = {key: value for key, value in os.environ.items() if not key.startswith(handed_down)}
        done = subprocess.run(
            ["make", f"PYTHON={self.python}", *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            env=outer | {"FAKE_LOG": str(self.log)} | variables,
            timeout=60,
        )
        return done.returncode, done.stdout + done.stderr, self.log.read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def torch_version() -> str:
    return next(line for line in (ROOT / ENGINE_LOCK).read_text().splitlines() if line.startswith("torch=="))


def test_setup_when_run_first_then_installs_torch_engine_package_and_tools_in_this_order(
    checkout: Checkout,
) -> None:
    code, printed, asked = checkout.make("setup")
    assert code == 0, printed
    assert [line.split()[-1] for line in asked] == [
        ".venv",
        torch_version(),
        str(ENGINE_LOCK),
        ".ci/package.lock.txt",
        ".",
        ".ci/test.lock.txt",
    ]
    assert all("--no-deps" in line for line in asked[1:])
    assert not [line for line in asked if "index" in line]


@pytest.mark.parametrize("variables", [{}, {"FAKE_NO_TORCH": "1"}])
def test_setup_when_run_again_then_asks_for_nothing(checkout: Checkout, variables: dict[str, str]) -> None:
    checkout.make("setup", **variables)
    (checkout.folder / "pyproject.toml").touch()
    (checkout.folder / ENGINE_LOCK).touch()
    assert checkout.make("setup", **variables)[::2] == (0, [])


@pytest.mark.parametrize(
    ("name", "again"),
    [
        (ENGINE_LOCK, [torch_version(), str(ENGINE_LOCK), ".ci/package.lock.txt", ".", ".ci/test.lock.txt"]),
        (Path("pyproject.toml"), [".ci/package.lock.txt", ".", ".ci/test.lock.txt"]),
        (Path(".ci") / "test.lock.txt", [".ci/test.lock.txt"]),
    ],
    ids=str,
)
def test_setup_when_a_file_changes_and_changes_back_then_installs_what_follows_from_it_each_time(
    checkout: Checkout, name: Path, again: list[str]
) -> None:
    checkout.make("setup")
    original = (checkout.folder / name).read_text()
    for text in (original + "# changed\n", original):
        (checkout.folder / name).write_text(text)
        assert [line.split()[-1] for line in checkout.make("setup")[2]] == again


def test_setup_when_torch_is_not_in_the_indexes_then_asks_the_cpu_index_and_says_so(
    checkout: Checkout,
) -> None:
    code, printed, asked = checkout.make("setup", FAKE_NO_TORCH="1")
    assert code == 0, printed
    assert f"{torch_version()} is not in the configured indexes" in printed
    assert asked[1].endswith(f"--extra-index-url https://download.pytorch.org/whl/cpu {torch_version()}")
    assert not [line for line in asked[2:] if "index" in line]


def test_setup_when_torch_index_is_given_then_asks_there(checkout: Checkout) -> None:
    asked = checkout.make("setup", "TORCH_INDEX=https://mirror.example.org/cpu", FAKE_NO_TORCH="1")[2]
    assert "--extra-index-url https://mirror.example.org/cpu " in asked[1]


@pytest.mark.parametrize("version", ["3.10", "3.14", ""])
def test_setup_when_python_does_not_fit_then_says_so_and_makes_nothing(
    checkout: Checkout, version: str
) -> None:
    if not version:
        checkout.python.unlink()
    code, printed, asked = checkout.make("setup", FAKE_VERSION=version)
    assert code == 2
    assert "dflash-doctor needs Python 3.11, 3.12 or 3.13" in printed
    assert f"seen: PYTHON={checkout.python} is {version or 'no Python that runs'}" in printed
    assert "do:   make setup PYTHON=python3.11" in printed
    assert asked == []
    assert not (checkout.folder / ".venv").exists()


def test_setup_when_python_is_newer_than_the_lock_then_says_what_is_tested(checkout: Checkout) -> None:
    code, printed, _ = checkout.make("setup", FAKE_VERSION="3.13")
    assert code == 0
    assert "tested on Python 3.11; this is 3.13" in printed


def test_setup_when_another_python_is_asked_for_then_starts_over(checkout: Checkout) -> None:
    checkout.make("setup")
    asked = checkout.make("setup", FAKE_VERSION="3.12")[2]
    assert asked[0] == "-m venv --clear .venv"
    assert len(asked) == 6


def test_setup_when_the_folder_has_moved_then_starts_over(checkout: Checkout) -> None:
    checkout.make("setup")
    checkout.folder = checkout.folder.rename(checkout.folder.with_name("elsewhere"))
    assert checkout.make("setup")[2][0] == "-m venv --clear .venv"


def test_setup_when_the_environment_lost_its_python_then_starts_over(checkout: Checkout) -> None:
    checkout.make("setup")
    (checkout.folder / ".venv" / "bin" / "python").unlink()
    asked = checkout.make("setup")[2]
    assert asked[0] == "-m venv --clear .venv"
    assert len(asked) == 6


def test_setup_when_the_environment_is_somebodys_own_then_clears_nothing(checkout: Checkout) -> None:
    own = checkout.folder / "own" / "kept"
    own.parent.mkdir()
    own.write_text("mine")
    assert checkout.make("setup", "VENV=own")[2][0] == "-m venv own"
    assert own.read_text() == "mine"


def test_help_when_no_goal_is_given_then_lists_every_goal(checkout: Checkout) -> None:
    code, printed, asked = checkout.make()
    assert code == 0
    goals = (
        "demo",
        "test",
        "setup",
        "lint",
        "types",
        "wheel",
        "bench",
        "selftest",
        "pair",
        "docs",
        "clean",
        "slow",
    )
    assert {line.split()[0] for line in printed.splitlines()} == {"help", *goals}
    assert asked == []
