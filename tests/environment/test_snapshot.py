"""The snapshot tells machine, builds and variables; nothing that looks like a secret, nothing imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fake_packages import VLLM_FILES, install

from dflash_doctor.environment import devices
from dflash_doctor.environment.answers import cache_folder, keep, key_of, recall
from dflash_doctor.environment.devices import driver_version, gpu_names, parse_amd, parse_nvidia
from dflash_doctor.environment.secrets import is_secret_name, is_secret_value
from dflash_doctor.environment.snapshot import engine_variables, environment_snapshot
from dflash_doctor.environment.time_limited import run_limited

TORCH_VERSION = """
from typing import Optional

__all__ = ['__version__', 'cuda']
__version__ = '2.13.0+cu130'
debug = False
cuda: Optional[str] = '13.0'
git_version = 'abc'
hip: Optional[str] = None
raise RuntimeError('imported')
"""


def test_snapshot_when_packages_are_there_then_tells_versions_builds_and_registries(tmp_path: Path) -> None:
    install(tmp_path, "vllm", "0.33.1rc1.dev12+g1a2b3c4d5", files=VLLM_FILES)
    install(tmp_path, "torch", "2.13.0+cu130", files={"torch/version.py": TORCH_VERSION})
    found = environment_snapshot({}, with_registries=True, path=[str(tmp_path)], cache=tmp_path / "c")
    assert found["packages"] == {"vllm": "0.33.1rc1.dev12+g1a2b3c4d5", "torch": "2.13.0+cu130"}
    assert found["commits"] == {"vllm": "1a2b3c4d5"}
    assert found["development_builds"] == {"vllm": "a development version"}
    assert found["torch_build"] == {"cuda": "13.0", "git_version": "abc", "hip": None}
    assert "dflash" in found["engines"]["vllm"]["methods"]
    assert json.loads(json.dumps(found)) == found
    assert "engines" not in environment_snapshot({}, path=[str(tmp_path)])


@pytest.mark.parametrize("text", ["", "(", "cuda = unknown()\n", "x.cuda = '1'\n", "\x00"])
def test_snapshot_when_torch_says_nothing_of_its_build_then_claims_nothing(text: str, tmp_path: Path) -> None:
    install(tmp_path, "torch", "2.13.0", files={"torch/version.py": text})
    build = environment_snapshot({}, path=[str(tmp_path)])["torch_build"]
    assert not [value for value in build.values() if value is not None]


def test_snapshot_when_taken_then_imports_no_engine() -> None:
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from dflash_doctor.environment.facts import environment_facts\n"
        "from dflash_doctor.environment.snapshot import environment_snapshot\n"
        "environment_snapshot(with_registries=True); environment_facts(Path.cwd())\n"
        "print(sorted({'torch', 'vllm', 'transformers', 'numpy', 'deepdiff'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


SECRET_VALUES = [
    "hf_abcdefghijklmnop",
    "sk-proj-abcdefghijkl",
    "ghp_0123456789abcdef",
    "github_pat_0123456789",
    "glpat-0123456789ab",
    "xoxb-0123456789-ab",
    "AKIA0123456789ABCDEF",
    "Bearer abcdefghij",
    "https://user:pw@host/simple",
    "https://0123456789abcdef0123@host/simple",
    "https://host/x?token=abc",
    "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0",
    "password: hunter2x",
    "-----BEGIN PRIVATE KEY-----",
    "opts --api-key=abcdef",
    "nvapi-0123456789abc",
]
PLAIN_VALUES = [
    "1", "0,1", "FLASHINFER", "/opt/vllm/cache", "https://host/simple", "tcp://10.0.0.1:29500", "INFO",
    "bfloat16", "expandable_segments:True", "/usr/lib:/opt/lib", "user@host", "desk-top_computer", "",
]  # fmt: skip


@pytest.mark.parametrize("value", SECRET_VALUES)
def test_variables_when_a_value_looks_like_a_secret_then_only_its_name_is_kept(value: str) -> None:
    kept = engine_variables({"VLLM_THING": value, "VLLM_OTHER": "1"})
    assert kept["VLLM_OTHER"] == "1"
    assert kept["VLLM_THING"].startswith("(hidden")
    assert is_secret_value(f"x {value}")


@pytest.mark.parametrize("value", PLAIN_VALUES)
def test_variables_when_a_value_is_plain_then_it_is_kept(value: str) -> None:
    assert engine_variables({"VLLM_THING": value}) == {"VLLM_THING": value}


@pytest.mark.parametrize(
    "name", ["VLLM_API_KEY", "VLLM_TOKEN", "SGLANG_SECRET", "NCCL_AUTH", "VLLM_PASSWORD", "CUDA_CREDENTIALS"]
)
def test_variables_when_a_name_is_that_of_a_secret_then_it_is_left_out(name: str) -> None:
    assert engine_variables({name: "x", "UNRELATED": "y"}) == {}


def test_secret_name_when_it_only_sounds_like_one_then_is_none() -> None:
    assert not is_secret_name("VLLM_MAX_TOKENS_PER_STEP")
    assert not is_secret_name("VLLM_TOKENIZER_MODE")


def test_gpus_when_the_driver_left_files_then_names_and_driver_are_read(tmp_path: Path) -> None:
    for index in range(2):
        (tmp_path / "gpus" / str(index)).mkdir(parents=True)
        (tmp_path / "gpus" / str(index) / "information").write_text("Model: \t NVIDIA H200\nIRQ: 1\n")
    (tmp_path / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  x\n"
    )
    assert gpu_names(tmp_path) == ["NVIDIA H200", "NVIDIA H200"]
    assert driver_version(tmp_path) == "580.82.07"
    (tmp_path / "amd").write_text("6.10.5\n")
    assert driver_version(tmp_path / "none", tmp_path / "amd") == "6.10.5"
    assert (gpu_names(tmp_path / "none"), driver_version(tmp_path / "none", tmp_path / "none")) == ([], None)


def test_driver_tool_when_it_answers_then_each_gpu_is_told() -> None:
    text = "NVIDIA H200, 580.82.07, 9.0, 143771\nNVIDIA GB10, 580.82.07, [N/A], [N/A]\nbroken line\n"
    assert parse_nvidia(text) == [
        {"name": "NVIDIA H200", "driver": "580.82.07", "compute_capability": "9.0", "memory_gib": 140.4},
        {"name": "NVIDIA GB10", "driver": "580.82.07"},
    ]
    amd = 'WARNING: x\n{"card0": {"Card Series": "MI300X"}, "system": {"Driver version": "6.10"}}'
    assert parse_amd(amd) == [{"name": "MI300X", "driver": "6.10"}]
    for bad in ("", "{", "[1]", '{"card0": 1, "system": 2}'):
        assert parse_amd(bad) == []


@pytest.mark.parametrize(
    "script", ["#!/bin/sh\nsleep 600\n", "#!/bin/sh\nexit 9\n", "#!/bin/sh\nwhile :; do echo x; done\n"]
)
def test_driver_tool_when_it_hangs_or_fails_then_nothing_is_claimed(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(script)
    tool.chmod(0o755)
    monkeypatch.setattr(devices.shutil, "which", lambda name: str(tool) if name == "nvidia-smi" else None)
    assert devices.ask_driver(time_limit_s=1.0) == []


def test_run_limited_when_a_program_is_missing_then_says_so() -> None:
    done = run_limited(["/no/such/program"], time_limit_s=1)
    assert done.code is None
    assert "No such file" in done.output


def test_answers_when_the_cache_cannot_be_used_then_nothing_breaks(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    keep("k", key_of("a"), {"x": 1}, folder=tmp_path / "file")
    assert recall("k", key_of("a"), folder=tmp_path / "file") is None
    keep("k", key_of("a"), {"x": 1}, folder=tmp_path)
    assert recall("k", key_of("a"), folder=tmp_path) == {"x": 1}
    assert recall("k", key_of("b"), folder=tmp_path) is None
    assert cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/dflash-doctor")
    assert cache_folder({"HOME": "/h"}) == Path("/h/.cache/dflash-doctor")
