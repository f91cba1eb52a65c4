"""The plugin as a user runs it: real pytest processes, exit codes, node ids, with and without xdist."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from doctor_process import PAIR, require_vllm
from evidence_factory import make_evidence
from pair_files import PairFiles
from record_factory import make_record

from dflash_doctor.checks.catalog import CHECKS
from dflash_doctor.evidence import Evidence
from dflash_doctor.runs import write_record, write_traces
from dflash_doctor.settings import options

NOTHING_PINNED = 2
"""Checks that have nothing to look at in an empty folder: requirement files (DF002), a lock (DF003)."""


@pytest.fixture
def replayed(pytester: pytest.Pytester) -> list[str]:
    """Options that run the plugin on a recorded healthy run: the whole way, without an engine."""
    return record_run(pytester.path / "recorded", make_evidence(num_requests=20))


def record_run(folder: Path, evidence: Evidence) -> list[str]:
    folder.mkdir()
    write_traces(evidence, folder, "x")
    write_record(make_record(evidence=evidence), folder)
    return ["--dflash", "--dflash-engine", "replay", "--dflash-replay", str(folder), "--dflash-output", "out"]


def test_plugin_when_not_asked_for_then_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("def test_x(): pass\n")
    script = (
        "import sys, pytest\ncode = pytest.main(['-q', '-p', 'no:cacheprovider'])\n"
        "heavy = {'numpy', 'msgspec', 'torch', 'transformers', 'vllm', 'rich', 'jinja2'}\n"
        "mine = sorted(name for name in sys.modules if name.startswith('dflash_doctor'))\n"
        "print('LOADED', int(code), sorted(heavy & set(sys.modules)), mine)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert "LOADED 0 [] " in shown.stdout
    assert "dflash_doctor.plugin_run" not in shown.stdout
    assert "dflash_doctor.session" not in shown.stdout


def test_plugin_when_no_path_is_named_then_runs_the_builtin_checks(
    pytester: pytest.Pytester, replayed: list[str]
) -> None:
    pytester.makeini("[pytest]\npython_files = check_*.py\npython_functions = check_*\n")
    pytester.makepyfile(test_own="def test_own(): assert False\n")
    result = pytester.runpytest_subprocess(*replayed, "--junitxml=j.xml")
    assert result.ret == 0
    result.assert_outcomes(passed=len(CHECKS) - 4, skipped=4)  # a recorded run has no experiments
    result.stdout.fnmatch_lines(
        ["dflash: target models/target", "*engine replay*", "PASSED  Healthy: 20 of 20*"]
    )
    cases = list(ElementTree.parse(pytester.path / "j.xml").iter("testcase"))
    ids = {f"{case.get('classname')}::{case.get('name')}" for case in cases}
    assert "checks.test_losslessness::test_losslessness[DF301-greedy-output-differs]" in ids
    assert not any("site-packages" in item or "bundled" in item or "/" in item for item in ids)
    properties = {item.get("name"): item.get("value") for item in cases[0].iter("property")}
    assert properties["dflash_verdict"] == "passed"
    assert properties["dflash_code"]
    assert float(properties["dflash_mean_acceptance_length"] or 0) > 1


def test_plugin_when_a_check_fails_then_shows_the_finding_and_no_traceback(pytester: pytest.Pytester) -> None:
    arguments = record_run(pytester.path / "recorded", make_evidence(accept=0.0))
    result = pytester.runpytest_subprocess(*arguments)
    assert result.ret == 1
    text = result.stdout.str()
    assert "DF402 error: almost no draft token is accepted" in text
    assert "  seen:     " in text
    assert "  do:       " in text
    assert "Traceback" not in text
    assert "assert_check(" not in text


def test_plugin_when_a_check_cannot_decide_then_skips_with_the_reason(pytester: pytest.Pytester) -> None:
    arguments = record_run(pytester.path / "recorded", make_evidence(num_requests=2, steps_per_request=3))
    result = pytester.runpytest_subprocess(*arguments, "-rs")
    result.stdout.fnmatch_lines(["*inconclusive: *a verdict needs two requests and 50 steps*"])


def test_plugin_when_own_tests_are_named_then_they_get_the_fixtures(
    pytester: pytest.Pytester, replayed: list[str]
) -> None:
    pytester.makepyfile(
        test_own="""
        import pytest
        from dflash_doctor.testing import assert_check, parametrize_checks

        def test_pair(dflash_pair):
            assert dflash_pair.method == "dflash"

        def test_run(dflash_run):
            assert dflash_run.record.metrics.overall.mean_acceptance_length.value > 1
            assert dflash_run.folder.name == "out"

        def test_target_only(dflash_target_only):
            assert len(dflash_target_only.requests) == 20

        @parametrize_checks("DF3", "DF4")
        def test_checks(dflash_run, code):
            assert_check(dflash_run, code)

        @pytest.mark.dflash
        def test_marked():
            pass
        """
    )
    result = pytester.runpytest_subprocess(*replayed, "test_own.py", "--strict-markers", "-v")
    assert result.ret == 0
    result.assert_outcomes(passed=9, skipped=4)
    result.stdout.fnmatch_lines(["*test_checks?DF301-greedy-output-differs?*PASSED*"])


def test_plugin_when_dflash_is_off_then_its_fixtures_skip(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_run(dflash_run): pass\ndef test_pair(dflash_pair): pass\n")
    result = pytester.runpytest_subprocess("-rs")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*give --dflash to run a target and drafter*"])


def test_plugin_when_no_pair_is_given_then_header_says_it_is_the_bundled_one(
    pytester: pytest.Pytester,
) -> None:
    result = pytester.runpytest_subprocess("--dflash", "--collect-only", "--dflash-max-prompts", "3")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*bundled tiny pair: give --dflash-target*", "dflash: max_prompts=3 (command line)"]
    )
    assert not (pytester.path / ".dflash").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dflash-target", "missing", "--dflash-draft", "x"], "*the target model does not exist*"),
        (["--dflash-target", str(PAIR / "target")], "*no drafter was named*"),
        (["--dflash-max-tokens", "many"], "*--max-tokens has a value that does not fit*"),
        (["--dflash-config", "none.toml"], "*the config file does not exist*"),
        (["-n", "2"], "*cannot be split over xdist workers*"),
    ],
)
def test_plugin_when_usage_is_bad_then_pytest_stops_with_one_message(
    pytester: pytest.Pytester, arguments: list[str], message: str
) -> None:
    if "-n" in arguments:
        pytest.importorskip("xdist", reason="xdist is what is refused")
    result = pytester.runpytest_subprocess("--dflash", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


def test_plugin_when_xdist_has_no_workers_then_runs(pytester: pytest.Pytester, replayed: list[str]) -> None:
    pytest.importorskip("xdist", reason="xdist is what is used")
    assert pytester.runpytest_subprocess(*replayed, "-n", "0").ret == 0


def test_plugin_when_the_engine_is_missing_then_static_checks_run_and_the_rest_says_what_to_install(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        sitecustomize="""
        import importlib.metadata as m
        real = m.version
        def version(name):
            if name.startswith("vllm"):
                raise m.PackageNotFoundError(name)
            return real(name)
        m.version = version
        """
    )
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=os.pathsep)
    result = pytester.runpytest_subprocess("--dflash", "-rs")
    static = sum(entry.static for entry in CHECKS)
    result.assert_outcomes(passed=static - NOTHING_PINNED, skipped=len(CHECKS) - static + NOTHING_PINNED)
    result.stdout.fnmatch_lines(["*vLLM is not installed*"])


def test_plugin_when_a_model_is_not_here_then_the_item_that_reads_it_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(pytester.path / "cache"))
    models = ("--dflash-target", "owner/target", "--dflash-draft", "owner/draft")
    result = pytester.runpytest_subprocess("--dflash", *models, "-k", "DF1")
    assert result.ret == 1
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["*inconclusive: the target owner/target could not be looked at*"])


def test_plugin_when_warnings_are_to_fail_then_the_item_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = PairFiles()
    pair.draft["rope_theta"] = 10000.0
    pair.write(pytester.path)
    models = ("--dflash", "--dflash-target", "./target", "--dflash-draft", "./draft", "-k", "DF115")
    assert pytester.runpytest_subprocess(*models).ret == 0
    result = pytester.runpytest_subprocess(*models, "--dflash-fail-on", "warning")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["DF115 warning: rope_theta stands in two places*"])


def test_plugin_when_checks_are_selected_then_only_they_run(
    pytester: pytest.Pytester, replayed: list[str]
) -> None:
    result = pytester.runpytest_subprocess(*replayed, "-k", "DF301 or DF401")
    result.assert_outcomes(passed=2, deselected=len(CHECKS) - 2)


def test_plugin_when_help_is_asked_then_every_setting_is_an_option(pytester: pytest.Pytester) -> None:
    text = pytester.runpytest_subprocess("--help").stdout.str()
    assert all("--dflash-" + item.name.replace("_", "-") in text for item in options())


@pytest.mark.engine
def test_plugin_when_run_in_an_empty_folder_then_the_bundled_pair_passes(pytester: pytest.Pytester) -> None:
    require_vllm()
    arguments = ("--dflash", "--dflash-max-prompts", "20", "--dflash-experiments", "off")
    result = pytester.runpytest_subprocess(*arguments)
    assert result.ret == 0
    skipped = NOTHING_PINNED + 4  # DF404 to DF407 ask experiments
    result.assert_outcomes(passed=len(CHECKS) - skipped, skipped=skipped)
    result.stdout.fnmatch_lines(
        ["PASSED  Healthy: 20 of 20 outputs are the target's own*", "report: .dflash/runs/*"]
    )
