"""Shared by the suite: no timed assertions, and one real run of the tiny pair for all who look at one."""

from __future__ import annotations

import os

import pytest
from doctor_process import PAIR, RealRun, require_vllm, run_doctor
from hypothesis import settings

# Machines are shared and noisy: a slow example is no failure.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True, scope="session")
def _no_hub() -> None:
    """No test asks the real hub: what it answers, and whether, is not up to us."""
    os.environ["HF_HUB_OFFLINE"] = "1"


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
