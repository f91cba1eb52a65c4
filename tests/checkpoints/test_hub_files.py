"""A hub id is checked from its small files and headers; weights stay where they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from doctor_process import CommandResult, run_doctor
from hub_server import COMMIT, hub_with
from pair_files import PairFiles

from dflash_doctor.checkpoints.hub_files import hub_is_allowed

IDS = ("--target", "owner/target", "--draft", "owner/draft")


def check(folder: Path, endpoint: str, **variables: str) -> CommandResult:
    environment = {
        "HF_ENDPOINT": endpoint,
        "HF_HUB_CACHE": str(folder / "cache"),
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "NO_PROXY": "127.0.0.1",
    }
    return run_doctor("check", *IDS, "--json", cwd=folder, environment=environment | variables)


@pytest.fixture
def served(tmp_path: Path) -> dict[str, Path]:
    """A pair with one fault, as hub ids."""
    pair = PairFiles()
    pair.dflash["target_layer_ids"] = [1, 9, 17, 25, 36]
    pair.write(tmp_path / "hub")
    return {f"owner/{name}": tmp_path / "hub" / name for name in ("target", "draft")}


def test_check_when_hub_ids_are_given_then_reads_configs_and_headers_and_no_weights(
    served: dict[str, Path], tmp_path: Path
) -> None:
    with hub_with(served) as (endpoint, requests):
        result = check(tmp_path, endpoint)
    checks = {item["code"]: item for item in json.loads(result.stdout)["checks"]}
    assert {code for code, item in checks.items() if item["verdict"] == "failed"} == {"DF104"}
    assert checks["DF123"]["verdict"] == "passed", "the tensors are known"
    edits = {item["edit"] for item in checks["DF129"]["findings"]}
    assert edits == {
        f"--engine-arg revision={COMMIT}",
        f"--engine-arg speculative_config.revision={COMMIT}",
    }
    sizes = [int(line.split()[-1]) for line in requests if line.startswith("GET model.safetensors")]
    assert sizes
    assert max(sizes) < 200_000, "headers only"


def test_check_when_the_machine_is_offline_then_asks_nobody(served: dict[str, Path], tmp_path: Path) -> None:
    with hub_with(served) as (endpoint, requests):
        result = check(tmp_path, endpoint, HF_HUB_OFFLINE="1")
    assert requests == []
    findings = [item for entry in json.loads(result.stdout)["checks"] for item in entry["findings"]]
    assert any("is not on this machine" in item["message"] for item in findings)


def test_check_when_the_id_does_not_exist_then_says_so(served: dict[str, Path], tmp_path: Path) -> None:
    with hub_with({"owner/target": served["owner/target"]}) as (endpoint, _):
        result = check(tmp_path, endpoint)
    checks = {item["code"]: item for item in json.loads(result.stdout)["checks"]}
    seen = [item["observed"] for item in checks["DF102"]["findings"]]
    assert any("could not be fetched" in text for text in seen)
    assert checks["DF118"]["reason"].startswith("not checked")


@pytest.mark.parametrize(
    ("environ", "allowed"),
    [
        ({}, True),
        ({"HF_HUB_OFFLINE": "1"}, False),
        ({"TRANSFORMERS_OFFLINE": "true"}, False),
        ({"HF_HUB_OFFLINE": "0"}, True),
    ],
)
def test_hub_is_allowed_when_a_switch_is_set_then_follows_it(environ: dict[str, str], allowed: bool) -> None:
    assert hub_is_allowed(environ) is allowed
