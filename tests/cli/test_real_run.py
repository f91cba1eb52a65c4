"""The main job on the real engine, as a stranger runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from doctor_process import PAIR, RealRun, require_vllm, run_doctor

from dflash_doctor.metrics.identities import identity_violations
from dflash_doctor.records import json_schema
from dflash_doctor.runs import read_record, read_traces

pytestmark = pytest.mark.engine


@pytest.fixture
def record(real_run: RealRun) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(real_run.result.stdout)
    return loaded


def test_diagnose_when_the_pair_is_healthy_then_passes_as_measured(real_run: RealRun, record: dict) -> None:
    assert real_run.result.code == 0
    assert real_run.result.stderr == ""
    jsonschema.validate(record, json_schema())
    assert record["verdict"] == "passed"
    assert record["diagnosis"] == []
    assert record["level"] == "token"
    assert record["incomplete"] is None
    overall = record["metrics"]["overall"]
    # Measured with this engine: 2,162 steps and 6,683 accepted on one machine, 2,166 and 6,678 on another.
    assert overall["mean_acceptance_length"]["value"] == pytest.approx(4.09, abs=0.15)
    assert overall["num_drafts"] == pytest.approx(2162, rel=0.03)
    assert overall["mean_acceptance_length"]["source"] == "derived"
    lossless = record["metrics"]["lossless"]
    assert lossless["num_compared"] == 200
    assert lossless["num_identical"] + lossless["num_ties"] == 200


def test_diagnose_when_the_pair_is_healthy_then_experiments_find_the_engines_own_defect_and_no_other(
    record: dict,
) -> None:
    """vLLM 0.32's CPU build normalises the drafter's context keys with layer 0's weight in every layer."""
    experiments = record["metrics"]["experiments"]
    reference = experiments["reference"]
    assert reference["overall"]["mean_acceptance_length"]["value"] == pytest.approx(4.15, abs=0.3)
    assert reference["target_agreement"]["value"] > 0.98
    assert reference["equal_drafts"]["value"] == pytest.approx(0.92, abs=0.03)
    assert reference["shuffled_excess_steps"]["low"] > 1
    explaining = [trial for trial in experiments["trials"] if trial["verdict"] == "explains"]
    assert [trial["cause"] for trial in explaining] == ["draft-context-key-norm"]
    assert explaining[0]["after"]["value"] > 0.975
    verdicts = {check["code"]: check["verdict"] for check in record["checks"]}
    assert {verdicts[code] for code in ("DF404", "DF405", "DF406", "DF407", "DF408")} == {"passed"}


def test_diagnose_when_categories_differ_then_each_has_its_own_value(record: dict) -> None:
    lengths = {
        name: item["mean_acceptance_length"]["value"]
        for name, item in record["metrics"]["by_category"].items()
    }
    assert sorted(lengths, key=lambda name: lengths[name]) == ["ramble", "chat", "math", "json", "code"]
    assert lengths["code"] > 2 * lengths["ramble"]
    assert set(record["metrics"]["by_segment"]) == {"answer"}


def test_diagnose_when_the_engine_is_live_then_its_facts_are_read_from_it(record: dict) -> None:
    facts = record["engine"]
    assert (facts["name"], facts["method"], facts["num_spec_tokens"], facts["block_size"]) == (
        "vllm",
        "dflash",
        7,
        8,
    )
    assert facts["lm_head_shared"] is True
    assert facts["embedding_shared"] is True
    assert facts["draft_layers_causal"] == [False, False]
    assert facts["target_layer_ids"] == [1, 3, 4]
    assert facts["aux_hidden_state_layers"] == [2, 4, 5]
    assert facts["mask_token_id"] == 3
    assert facts["draft_attention"]


def test_diagnose_when_finished_then_the_run_folder_is_whole(real_run: RealRun) -> None:
    names = sorted(file.name for file in real_run.folder.iterdir())
    assert names == ["engine.log", "report.html", "run.json", "traces.jsonl"]
    record, folder = read_record(real_run.folder)
    evidence = read_traces(folder / "traces.jsonl")
    assert evidence.speculative is not None
    assert identity_violations(evidence.speculative) == ()
    steps = [step for trace in evidence.speculative.requests for step in trace.steps or ()]
    assert record.metrics.overall is not None
    assert len(steps) == record.metrics.overall.num_drafts
    rejected = [step for step in steps if step.num_accepted < step.num_drafted]
    assert all(step.rejected_rank is not None and step.rejected_logprob is not None for step in rejected)
    assert all(step.chosen_rank == 1 for step in steps)
    assert all((step.rejected_logprob or 0) <= (step.chosen_logprob or 0) for step in rejected)


def test_replay_when_a_recorded_run_is_judged_again_then_the_verdict_is_the_same(
    real_run: RealRun, tmp_path: Path, record: dict
) -> None:
    again = run_doctor(
        "diagnose", "--engine", "replay", "--replay", str(real_run.folder), "--json", cwd=tmp_path
    )
    assert again.code == 0, again.stderr
    replayed = json.loads(again.stdout)
    assert replayed["metrics"] == record["metrics"]
    assert replayed["checks"] == record["checks"]
    assert replayed["run_id"] != record["run_id"]


def test_report_when_a_real_run_is_named_then_writes_every_format(real_run: RealRun, tmp_path: Path) -> None:
    shown = run_doctor("report", str(real_run.folder), cwd=tmp_path)
    assert shown.code == 0
    assert shown.stdout.startswith("PASSED  Healthy: 200 of 200")
    as_json = run_doctor("report", str(real_run.folder / "run.json"), "--format", "json", cwd=tmp_path)
    assert json.loads(as_json.stdout) == json.loads((real_run.folder / "run.json").read_text())
    page = run_doctor("report", str(real_run.folder), "--format", "html", "--output", "r.html", cwd=tmp_path)
    assert page.code == 0
    assert (tmp_path / "r.html").read_bytes() == (real_run.folder / "report.html").read_bytes()


def test_diagnose_when_k_is_beyond_the_block_then_says_what_the_engine_does_not(tmp_path: Path) -> None:
    require_vllm()
    result = run_doctor(
        "diagnose",
        "--target", str(PAIR / "target"),
        "--draft", str(PAIR / "draft"),
        "--num-speculative-tokens", "12",
        "--max-prompts", "20",
        "--experiments", "off",
        "--output", "run",
        cwd=tmp_path,
    )  # fmt: skip
    assert result.code == 1
    assert "set num_speculative_tokens to 7" in result.stdout
    assert "num-speculative-tokens-exceeds-block  90 %, settings" in result.stdout


def test_diagnose_when_the_engine_cannot_load_the_draft_then_the_record_says_why(tmp_path: Path) -> None:
    require_vllm()
    draft = tmp_path / "draft"
    draft.mkdir()
    for file in (PAIR / "draft").iterdir():
        (draft / file.name).write_bytes(file.read_bytes())
    config = (draft / "config.json").read_text()
    (draft / "config.json").write_text(
        re.sub(r'"target_layer_ids": \[[^\]]*\]', '"target_layer_ids": [1, 3]', config)
    )
    result = run_doctor(
        "diagnose", "--target", str(PAIR / "target"), "--draft", str(draft), "--output", "run", cwd=tmp_path
    )
    assert result.code == 1
    assert result.stdout.startswith("FAILED  DF106 ")
    assert "Traceback" not in result.stdout + result.stderr
    record, folder = read_record(tmp_path / "run")
    assert record.verdict == "failed", "the files say why, whatever the engine says"
    assert record.incomplete is not None
    assert "failed to start" in record.incomplete
    assert "[128, 384]" in record.incomplete
    assert (folder / "engine.log").stat().st_size > 0


def test_diagnose_when_turns_and_raw_prompts_are_given_then_each_turn_is_a_request(tmp_path: Path) -> None:
    require_vllm()
    lines = [
        {
            "id": "t",
            "category": "chat",
            "turns": ["Which city is the capital of Austria?", "Give me three tips."],
        },
        {"id": "r", "category": "raw", "prompt": "The rusty garden"},
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = run_doctor(
        "diagnose",
        "--target", str(PAIR / "target"),
        "--draft", str(PAIR / "draft"),
        "--prompts", "p.jsonl",
        "--max-tokens", "24",
        "--thinking", "on",
        "--experiments", "off",
        "--output", "run",
        "--quiet",
        cwd=tmp_path,
    )  # fmt: skip
    assert result.code in (0, 1), result.stderr
    record, folder = read_record(tmp_path / "run")
    evidence = read_traces(folder / "traces.jsonl")
    assert evidence.speculative is not None
    assert evidence.target_only is not None
    ids = [trace.prompt_id for trace in evidence.speculative.requests]
    assert ids == ["t#1", "r", "t#2"]
    assert [trace.prompt_ids for trace in evidence.target_only.requests] == [
        trace.prompt_ids for trace in evidence.speculative.requests
    ]
    first, _, second = evidence.speculative.requests
    assert len(second.prompt_ids) > len(first.prompt_ids)
    assert record.workload is not None
    assert record.workload.thinking == "on"


def test_diagnose_when_sampling_then_losslessness_is_not_claimed(tmp_path: Path) -> None:
    require_vllm()
    result = run_doctor(
        "diagnose",
        "--target", str(PAIR / "target"),
        "--draft", str(PAIR / "draft"),
        "--temperature", "0.7",
        "--max-prompts", "10",
        "--engine", "transformers",
        "--output", "run",
        "--json",
        cwd=tmp_path,
    )  # fmt: skip
    record = json.loads(result.stdout)
    verdicts = {check["code"]: check["verdict"] for check in record["checks"]}
    assert verdicts["DF301"] == "skipped"
    assert record["metrics"]["lossless"] is None
    assert verdicts["DF801"] == "passed"
