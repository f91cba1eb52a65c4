"""This environment is not the one in the lock file

## What it checks

The lock file of the setting `environment-lock`, written by `dflash-doctor env --lock FILE`, against this
machine and Python environment. Each difference is weighed: *breaking* (results are of another kind),
*risky* (numbers may move), *harmless*.

## Why it matters

A baseline is a number of one environment. Two versions of one engine differed by 16 % in speed
(syv-ai/qwen38-27b-rtx3090#73), and a variable can switch the attention backend or the model runner.

## Example

    DF003 the environment is not as locked: packages vllm
      seen:     0.33.0; locked 0.32.0
      expected: 0.32.0 (another release of the engine: its drafting and its kernels change)
      do:       pip install vllm==0.32.0, or measure a new baseline and lock again

## What to do

Install what was locked, or accept the change: measure anew, then write the lock again.
`dflash-doctor env --check FILE` shows every difference.
"""

from __future__ import annotations

import shlex
from collections import Counter

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.environment_view import environment_view
from dflash_doctor.contract.environment import LockDifference
from dflash_doctor.records import Finding, Severity, Where

_SEVERITY: dict[str, Severity] = {"breaking": "error", "risky": "warning", "harmless": "info"}


def judge(case: Case) -> Outcome:
    """One finding per difference that may matter; harmless ones are counted."""
    view = environment_view(case)
    if isinstance(view, Outcome):
        return view
    _, facts = view
    lock = facts.lock
    if lock is None:
        return skipped("no environment lock is set (env --lock FILE writes one)")
    if lock.error is not None:
        finding = Finding(
            code="DF003",
            severity="error",
            message="the environment lock cannot be read",
            observed=lock.error,
            expected="a file written by dflash-doctor env --lock",
            remedy="write it again, or correct the setting environment-lock",
            edit=f"dflash-doctor env --lock {lock.file}",
            where=Where(file=lock.file),
            causes=("backend-version-unpinned",),
        )
        return settled([finding], compared=[])
    weights = Counter(item.weight for item in lock.differences)
    findings = [_finding(item, lock.file) for item in lock.differences if item.weight != "harmless"]
    said = "as locked" if not lock.differences else f"{weights['harmless']} harmless differences"
    return settled(findings, compared=[f"{said} ({lock.file})"])


def _finding(item: LockDifference, file: str) -> Finding:
    locked, found = item.in_words()
    return Finding(
        code="DF003",
        severity=_SEVERITY[item.weight],
        message=f"the environment is not as locked: {item.what}",
        observed=f"{found}; locked {locked}",
        expected=f"{locked} ({item.reason})",
        remedy=f"{item.weight}: go back to what was locked, or measure a new baseline and lock again",
        where=Where(file=file, field=item.what.replace(" ", ".")),
        causes=("backend-version-unpinned",),
        edit=_edit(item),
    )


def _edit(item: LockDifference) -> str | None:
    part, _, name = item.what.partition(" ")
    if part == "packages" and isinstance(item.locked, str):
        return f"pip install {name}=={item.locked}"
    if part == "variables" and item.locked is None:
        return f"unset {name}"
    if part == "variables" and not str(item.locked).startswith("(hidden"):
        return f"export {name}={shlex.quote(str(item.locked))}"
    return None
