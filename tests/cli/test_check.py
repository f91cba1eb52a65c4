"""`dflash-doctor check` as a user runs it: exit codes, formats, plans, bad input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
from doctor_process import PAIR, run_doctor
from pair_files import PairFiles, speculators_pair

from dflash_doctor.records import RunRecord, json_schema

GOOD = ("--target", str(PAIR / "target"), "--draft", str(PAIR / "draft"))


@pytest.fixture
def misread(tmp_path: Path) -> Path:
    """A folder with a speculators pair that vLLM runs causal; the drafter's flag is on a line of its own."""
    pair = speculators_pair()
    pair.draft["sliding_window_non_causal"] = False
    pair.write(tmp_path)
    return tmp_path


THERE = ("--target", "target", "--draft", "draft")


def test_check_when_the_bundled_pair_is_given_then_finds_nothing(tmp_path: Path) -> None:
    result = run_doctor("check", *GOOD, "--json", cwd=tmp_path)
    assert result.code == 0
    record = json.loads(result.stdout)
    assert record["verdict"] == "passed"
    assert [item for check in record["checks"] for item in check["findings"]] == []
    assert record["engine"] is None
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_check_when_strict_then_the_bundled_pair_still_passes(tmp_path: Path) -> None:
    assert run_doctor("check", *GOOD, "--strict", cwd=tmp_path).code == 0


def test_check_when_json_is_asked_then_it_is_a_record_by_the_schema(misread: Path) -> None:
    import msgspec

    result = run_doctor("check", *THERE, "--json", cwd=misread)
    record = msgspec.json.decode(result.stdout.encode(), type=RunRecord)
    assert record.contract is not None
    assert record.contract.pair is not None
    assert {item.reader for item in record.contract.pair.readings} >= {"vllm", "sglang", "transformers"}
    assert "contract" in json_schema()["$defs"]["RunRecord"]["properties"]


def test_check_when_an_engine_misreads_the_drafter_then_says_who_reads_what_and_where(misread: Path) -> None:
    result = run_doctor("check", *THERE, cwd=misread)
    assert result.code == 1
    text = " ".join(result.stdout.split())
    assert text.startswith("FAILED DF118: vllm would run 5 of 5 drafter layers with another causality")
    assert "vllm: all 5 layers causal (sliding_window_non_causal)" in text
    assert "trained: all 5 layers bidirectional" in text
    line = next(
        number
        for number, content in enumerate((misread / "draft" / "config.json").read_text().splitlines(), 1)
        if "sliding_window_non_causal" in content
    )
    assert f"draft/config.json:{line} sliding_window_non_causal" in text
    assert "as written (speculators) 1, 9, 17, 25, 33" in text
    assert "sglang 0.5.23 1, 9, 17, 25, 33 15" in text


def test_check_when_served_by_another_engine_then_judges_that_reading(misread: Path) -> None:
    config = json.loads((misread / "draft" / "config.json").read_text())
    config["aux_hidden_state_layer_ids"] = [3, 11, 18, 26, 34]
    (misread / "draft" / "config.json").write_text(json.dumps(config))
    result = run_doctor("check", *THERE, "--served-by", "sglang", "--json", cwd=misread)
    codes = {check["code"] for check in json.loads(result.stdout)["checks"] if check["verdict"] == "failed"}
    assert "DF105" in codes
    assert "DF118" not in codes


def test_check_when_a_fix_plan_is_asked_then_gives_the_exact_edit_and_changes_nothing(misread: Path) -> None:
    before = (misread / "draft" / "config.json").read_bytes()
    result = run_doctor("check", *THERE, "--fix-plan", "--num-speculative-tokens", "20", cwd=misread)
    assert result.code == 1
    assert "1. --num-speculative-tokens 15" in result.stdout
    assert "2. draft/config.json: sliding_window_non_causal = true" in result.stdout
    assert "# DF118 error" in result.stdout
    assert (misread / "draft" / "config.json").read_bytes() == before


def test_check_when_the_fix_plan_is_followed_then_nothing_is_left(misread: Path) -> None:
    path = misread / "draft" / "config.json"
    config = json.loads(path.read_text())
    config["sliding_window_non_causal"] = True
    path.write_text(json.dumps(config))
    result = run_doctor("check", *THERE, "--fix-plan", cwd=misread)
    assert result.code == 0
    assert "nothing to change" in result.stdout


def test_check_when_sarif_is_asked_then_points_at_the_line_of_the_key(misread: Path) -> None:
    result = run_doctor("check", *THERE, "--format", "sarif", "--output", "out.sarif", cwd=misread)
    assert result.code == 1
    assert result.stdout == ""
    document = json.loads((misread / "out.sarif").read_text())
    assert document["version"] == "2.1.0"
    run = document["runs"][0]
    loud = [item for item in run["results"] if item["level"] == "error"]
    assert [item["ruleId"] for item in loud] == ["DF118"]
    rules = run["tool"]["driver"]["rules"]
    for item in run["results"]:
        assert rules[item["ruleIndex"]]["id"] == item["ruleId"]
        assert item["message"]["text"].endswith(".")
    place = loud[0]["locations"][0]["physicalLocation"]
    file = misread / unquote(place["artifactLocation"]["uri"])
    line = file.read_text().splitlines()[place["region"]["startLine"] - 1]
    assert '"sliding_window_non_causal"' in line
    assert loud[0]["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "sliding_window_non_causal"


def test_check_when_the_pair_lies_elsewhere_then_sarif_has_absolute_addresses(
    misread: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("else where")
    pair = ("--target", str(misread / "target"), "--draft", str(misread / "draft"))
    result = run_doctor("check", *pair, "--format", "sarif", cwd=elsewhere)
    results = json.loads(result.stdout)["runs"][0]["results"]
    uris = [item["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for item in results]
    assert all(uri.startswith("file:///") for uri in uris)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no target model was named"),
        (("--target", "nowhere"), "the target model does not exist"),
        (GOOD[:2], "no draft model was named"),
        (("--target", ""), "the target model does not exist"),
        (("--target", str(PAIR / "target" / "config.json"), *GOOD[2:]), "the target model is a file"),
        ((*GOOD, "--engine-arg", "speculative_config=7"), "speculative_config is no JSON object"),
        ((*GOOD, "--served-by", "llama"), "--served-by has a value that does not fit"),
        ((*GOOD, "--engine-arg", "dtype"), "an engine argument is not KEY=VALUE"),
        ((*GOOD, "--format", "pdf"), "'pdf' is not one of"),
        ((*GOOD, "--format", "sarif", "--output", "no/such/folder/x"), "the report cannot be written"),
    ],
)
def test_check_when_it_is_used_wrongly_then_says_what_fits(
    arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    result = run_doctor("check", *arguments, cwd=tmp_path)
    assert result.code == 2
    assert said in result.stderr


@pytest.fixture
def warned(tmp_path: Path) -> Path:
    """A folder with a pair of which one thing deserves a warning and nothing is an error."""
    pair = PairFiles()
    pair.draft["rope_parameters"]["rope_theta"] = 1000000.0
    pair.draft["rope_theta"] = 10000.0
    pair.write(tmp_path)
    return tmp_path


def test_check_when_there_are_only_warnings_then_the_run_passes(warned: Path) -> None:
    result = run_doctor("check", *THERE, cwd=warned)
    assert "warnings (1)" in result.stdout
    assert (result.code, result.stdout.split()[0]) == (0, "PASSED")
    assert run_doctor("check", *THERE, "--strict", cwd=warned).code != 1


def test_check_when_warnings_are_to_fail_then_the_check_and_the_run_do(warned: Path) -> None:
    result = run_doctor("check", *THERE, "--fail-on", "warning", cwd=warned)
    assert result.code == 1
    assert result.stdout.startswith("FAILED  DF115: rope_theta stands in two places with two values")
    (warned / "dflash-doctor.toml").write_text('fail-on = "warning"\n')
    assert run_doctor("check", *THERE, cwd=warned).code == 1


def test_check_when_two_places_name_two_values_then_the_plan_offers_no_edit(warned: Path) -> None:
    plan = run_doctor("check", *THERE, "--fix-plan", cwd=warned).stdout
    assert "# no exact edit is known for these" in plan
    assert "rope_theta = " not in plan


@pytest.mark.parametrize("other", [("--json",), ("--format", "sarif")])
def test_check_when_two_formats_are_asked_for_then_it_is_bad_usage(
    other: tuple[str, ...], tmp_path: Path
) -> None:
    result = run_doctor("check", *GOOD, "--fix-plan", *other, cwd=tmp_path)
    assert result.code == 2
    assert "one run is written in one format" in result.stderr
    assert run_doctor("check", *GOOD, "--json", "--format", "json", cwd=tmp_path).code == 0


def test_check_when_the_method_needs_no_drafter_then_judges_the_target_alone(tmp_path: Path) -> None:
    result = run_doctor("check", *GOOD[:2], "--method", "ngram", "--json", cwd=tmp_path)
    assert result.code == 0
    checks = {check["code"]: check for check in json.loads(result.stdout)["checks"]}
    assert checks["DF104"]["reason"] == "method ngram has no drafter of its own"
    assert checks["DF204"]["verdict"] == "passed"


def test_check_when_one_file_is_broken_then_the_other_checks_still_run(tmp_path: Path) -> None:
    PairFiles().write(tmp_path)
    (tmp_path / "target" / "config.json").write_text('{"hidden_size": 4096, ')
    result = run_doctor("check", *THERE, "--json", cwd=tmp_path)
    assert result.code == 1
    checks = {check["code"]: check for check in json.loads(result.stdout)["checks"]}
    finding = checks["DF102"]["findings"][0]
    assert finding["message"] == "config.json cannot be read"
    assert finding["where"]["line"] == 1
    assert checks["DF107"]["verdict"] == "skipped"
    assert checks["DF107"]["reason"].startswith("not checked")
    assert checks["DF118"]["verdict"] == "passed"


def test_check_when_no_taps_are_stated_then_the_table_does_not_claim_to_know_them(tmp_path: Path) -> None:
    pair = PairFiles()
    del pair.dflash["target_layer_ids"]
    pair.write(tmp_path)
    shown = run_doctor("check", *THERE, cwd=tmp_path).stdout
    row = next(line for line in shown.splitlines() if line.startswith("as written (z-lab)"))
    assert row.split("  ")[1].strip() == "not stated"


def test_check_when_a_hub_id_is_not_here_then_says_not_checked_and_never_compatible(tmp_path: Path) -> None:
    environment = {"HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    pair = ("--target", "owner/target", "--draft", "owner/draft")
    result = run_doctor("check", *pair, "--json", cwd=tmp_path, environment=environment)
    record = json.loads(result.stdout)
    passed = {check["code"] for check in record["checks"] if check["verdict"] == "passed"}
    about_files = {f"DF1{number:02}" for number in range(1, 32)} - {"DF102", "DF126", "DF129"}
    assert passed & about_files == set()
    assert "DF102" not in passed
    assert (result.code, record["verdict"]) == (3, "inconclusive")
    assert record["summary"].startswith(
        "DF102 checkpoint-unreadable: the target owner/target could not be looked at: no snapshot of that id"
    )


def test_check_when_only_the_drafter_is_not_here_then_the_run_is_inconclusive(tmp_path: Path) -> None:
    environment = {"HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    pair = (*GOOD[:2], "--draft", "owner/draft")
    result = run_doctor("check", *pair, cwd=tmp_path, environment=environment)
    assert result.code == 3
    assert result.stdout.startswith("INCONCLUSIVE  DF102 checkpoint-unreadable: the draft owner/draft")


def test_check_when_a_path_is_mistyped_then_it_is_not_taken_for_a_hub_id(tmp_path: Path) -> None:
    PairFiles(names=("pair/target", "pair/draft")).write(tmp_path)
    pair = ("--target", "pair/traget", "--draft", "pair/draft")
    result = run_doctor("check", *pair, cwd=tmp_path)
    assert result.code == 2
    assert "'pair/traget', and pair is a folder here" in result.stderr
    assert "did you mean pair/target?" in result.stderr


def test_check_when_it_runs_then_nothing_heavy_is_imported() -> None:
    import subprocess

    script = (
        "import sys\nfrom dflash_doctor.cli.main import main\n"
        f"try: main({['check', *GOOD]!r})\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'torch', 'transformers', 'vllm', 'deepdiff', 'hypothesis', 'tokenizers'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "LOADED []"
