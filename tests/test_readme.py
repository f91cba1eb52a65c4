"""The README is true: its commands run, its tables are what the code says, its example is a real report."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doctor_process import RealRun, require_vllm
from readme_blocks import CONTRIBUTING, README, ROOT, block_of, blocks, static_modes

from dflash_doctor.cli.main import COMMANDS
from dflash_doctor.reports.terminal import render_terminal
from dflash_doctor.runs import read_record

TEXT = README.read_text(encoding="utf-8")
NEEDS_ENGINE = ("dflash-doctor diagnose", "dflash-doctor demo")
LINES_SHOWN = re.findall(r"^\$ (.+)$", TEXT, re.MULTILINE)
ASSIGNMENTS = [line for line in LINES_SHOWN if re.match(r"[A-Z]+=", line)]
"""What a reader's shell keeps from one block to the next."""
COMMANDS_SHOWN = [line for line in LINES_SHOWN if line not in ASSIGNMENTS]


@pytest.mark.parametrize("name", blocks())
def test_readme_when_a_block_is_generated_then_it_is_up_to_date(name: str) -> None:
    assert block_of(TEXT, name) == blocks()[name], "run: make docs"


@pytest.mark.parametrize("name", ["bench-capture", "bench-check", "bench-commands", "bench-report"])
def test_readme_when_a_benchmark_is_shown_then_it_has_numbers_and_names_the_machine(name: str) -> None:
    block = block_of(TEXT, name)
    assert block.count("\n|") >= 3
    assert re.search(r"Machine: .+ cores", block)


def test_contributing_when_static_modes_are_listed_then_each_has_a_check_or_a_reason() -> None:
    assert block_of(CONTRIBUTING.read_text(encoding="utf-8"), "static-modes") == static_modes(), (
        "run: make docs"
    )


def runnable() -> list[object]:
    found = []
    for command in COMMANDS_SHOWN:
        if command.startswith("make"):
            continue
        marks = [pytest.mark.engine] if command.startswith(NEEDS_ENGINE) else []
        found.append(pytest.param(command, marks=marks, id=command[:70]))
    return found


@pytest.mark.parametrize("command", runnable())
def test_readme_when_a_command_is_shown_then_it_runs(command: str, tmp_path: Path) -> None:
    if command.startswith(NEEDS_ENGINE):
        require_vllm()
        command += f" --output {tmp_path / 'run'}"
    binaries = Path(sys.executable).parent
    environment = dict(os.environ, PATH=f"{binaries}:{os.environ['PATH']}")
    # One run with experiments is made anyway (`real_run`); here it is about the commands.
    environment["DFLASH_DOCTOR_EXPERIMENTS"] = "off"
    done = subprocess.run(
        "\n".join([*ASSIGNMENTS, command]),
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
    )
    # Findings are a fine answer: prompts of another world are accepted badly by the tiny pair.
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout


def test_readme_when_make_targets_are_shown_then_the_makefile_has_them() -> None:
    shown = set(re.findall(r"make (\w+)", "\n".join(COMMANDS_SHOWN))) | {"bench"}
    makefile = (ROOT / "Makefile").read_text()
    assert shown >= {"demo", "test"}
    for target in shown:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


@pytest.mark.engine
def test_readme_when_the_demo_is_shown_then_it_is_a_real_report(real_run: RealRun) -> None:
    record, _ = read_record(real_run.folder)
    shown = block_of(TEXT, "demo")
    now = render_terminal(record, width=100, color=False)
    # Numbers move a little between machines; what is said does not.
    wanted = {line.split()[0] for line in now.splitlines() if line and not line.startswith(" ")}
    there = {line.split()[0] for line in shown.splitlines() if line and not line.startswith((" ", "```"))}
    assert {"PASSED", "pair", "engine", "workload", "overall", "math", "code", "ramble"} <= there
    assert len(wanted & there) > 0.7 * len(wanted)


def test_readme_when_it_lists_commands_then_all_are_there() -> None:
    assert all(f"`dflash-doctor {name}`" in TEXT for name in COMMANDS)


def test_readme_when_read_then_names_no_path_of_a_machine() -> None:
    for file in (
        README,
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *ROOT.glob("fixtures/**/README.md"),
    ):
        assert not re.search(r"(?<![\w.])/(?:root|home|work|tmp)/", file.read_text(encoding="utf-8")), file
