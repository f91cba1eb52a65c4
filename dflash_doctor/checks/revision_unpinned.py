"""A hub id is used without a commit

## What it checks

Target and drafter that are named by hub id need a revision that cannot move: a commit.

## Why it matters

Repositories change under their name. One published drafter went from 4 layers, 6 taps and a window of 2,048
to 6 layers, 8 taps and 4,096 between April and June 2026. A baseline measured before says nothing after.

## Example

    DF129 the drafter's hub id is not pinned to a commit
      seen:     z-lab/Qwen3.5-122B-A10B-DFlash at main
      do:       --engine-arg speculative_config.revision=COMMIT

## What to do

Pin the commit that was tested. The local snapshot's is shown where there is one.
"""

from __future__ import annotations

import re

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.contract.pair import Checkpoint
from dflash_doctor.records import Finding, Where

_COMMIT = re.compile(r"[0-9a-f]{40}")
_ARGUMENTS = {"target": "revision", "draft": "speculative_config.revision"}


def judge(case: Case) -> Outcome:
    """Look at how hub ids are pinned."""
    contract = case.evidence.contract
    if contract is None or contract.pair is None:
        return skipped("not checked: the files of the pair were not read")
    both = [item for item in (contract.pair.target, contract.pair.draft) if item is not None]
    named = [item for item in both if item.is_hub_id]
    findings = [_finding(item) for item in named if not _COMMIT.fullmatch(item.requested_revision or "")]
    return settled(findings, compared=[_pin(item) for item in named] or ["both are folders on this machine"])


def _pin(item: Checkpoint) -> str:
    revision = item.requested_revision
    if _COMMIT.fullmatch(revision or ""):
        return f"the {item.role} is pinned to {revision}"
    return f"the {item.role} is taken at {revision or 'main'}, which can move"


def _finding(item: Checkpoint) -> Finding:
    argument = _ARGUMENTS[item.role]
    commit = item.revision or "COMMIT"
    return Finding(
        code="DF129",
        severity="warning",
        message=f"the {item.role}'s hub id is not pinned to a commit",
        observed=f"{item.name} at {item.requested_revision or 'main'}",
        expected="a commit",
        remedy=f"pin it: --engine-arg {argument}={commit}",
        edit=f"--engine-arg {argument}={commit}",
        where=Where(file=item.config_file),
        causes=("backend-version-unpinned",),
    )
