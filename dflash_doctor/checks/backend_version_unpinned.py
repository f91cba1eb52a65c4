"""An engine package is asked for without an exact version

## What it checks

How the project's own files ask for the packages that decide what is measured (vllm, sglang, torch,
transformers and their kernels): requirements and constraints files with what they include, pyproject.toml,
setup.cfg, environment.yml, and the lock files of uv, Poetry, PDM and Pipenv. A package counts as pinned when
any of them names one version.

The project is the folder in which `dflash-doctor` is run (SARIF addresses, too, are relative to it), not the
one in which the checkpoints lie.

## Why it matters

Between two releases of an engine defaults change: 3.19 tokens per step became 2.66 when a default of draft
sampling changed (syv-ai/qwen38-27b-rtx3090#73). A baseline that was measured under another version says
nothing (vllm-project/vllm-ascend#8819, eugr/spark-vllm-docker#364).

## Example

    DF002 vllm is asked for without an exact version
      seen:     vllm>=0.30 (requirements.txt:3); installed is 0.32.0
      do:       vllm==0.32.0

## What to do

Pin what was measured. A package's own metadata is meant to give ranges: there, add a lock file or a
constraints file for what is installed.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.environment_view import environment_view
from dflash_doctor.contract.environment import EnvironmentFacts, Unpinned
from dflash_doctor.records import Finding, Where


def judge(case: Case) -> Outcome:
    """Report what no file pins."""
    view = environment_view(case)
    if isinstance(view, Outcome):
        return view
    _, facts = view
    pins = facts.pins
    if pins is None:
        return skipped("not checked: no project folder was looked at")
    findings = [_finding(item, facts) for item in pins.unpinned]
    unread = [f"{item} could not be read" for item in pins.unread]
    if not pins.pinned and not pins.unpinned:
        said = "no file of this project asks for an engine package"
        return skipped("not checked: " + "; ".join([said, *unread]) if unread else said)
    compared = [f"pinned exactly: {', '.join(pins.pinned)}"] if pins.pinned else []
    if not compared:
        compared = ["no engine package is pinned"]
    return settled(findings, compared=compared, unchecked=unread)


def _finding(item: Unpinned, facts: EnvironmentFacts) -> Finding:
    there = facts.package(item.package)
    place = item.file if item.line is None else f"{item.file}:{item.line}"
    pinned = f"{item.package}=={there.version.partition('+')[0]}" if there is not None else None
    return Finding(
        code="DF002",
        severity="info" if item.is_metadata else "warning",
        message=f"{item.package} is asked for without an exact version",
        observed=f"{item.requirement} ({place})"
        + (f"; installed is {there.version}" if there is not None else "; not installed here"),
        expected="one version, the one that was measured",
        remedy="keep the range and add a lock or constraints file"
        if item.is_metadata
        else "write one exact version",
        where=Where(file=item.file, line=item.line),
        causes=("backend-version-unpinned",),
        edit=None if pinned is None or item.is_metadata else f"{place}: {pinned}",
    )
