"""A file of the checkpoint is damaged, missing or not what it should be

## What it checks

Every file that the static checks read, of target and drafter: `config.json`, the safetensors headers and
their index, GGUF headers, the vocabulary tables. Truncated or badly encoded JSON, values of the wrong type,
keys written twice, headers that contradict themselves or the file's size, shards that the index names and
nobody finds, links out of the folder.

A model of which nothing lies on this machine, and which could not be fetched, leaves the check undecided:
`dflash-doctor check` then ends with exit status 3, and the check's item in pytest fails.

## Why it matters

An engine finds such a thing after minutes of start-up, one at a time, and its message names a tensor shape
rather than the file. Some it does not find at all: of a key written twice one value counts and nothing says
so.

## Example

    DF102 the weight file model-00002-of-00004.safetensors is missing
      seen:     the index puts 312 tensors into it
      do:       download the checkpoint again

## What to do

Restore the file from the original release; compare its size and hash with what the release page says.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, inconclusive, settled, skipped
from dflash_doctor.contract.pair import Checkpoint, Problem
from dflash_doctor.records import Finding, Where


def judge(case: Case) -> Outcome:
    """Every problem met while reading."""
    contract = case.evidence.contract
    if contract is None:
        return skipped("not checked: the files of the pair were not read")
    findings = [_not_collected(part, why) for part, why in contract.not_collected.items()]
    # An engine that ran the pair has seen its files, wherever it keeps them.
    ran = case.evidence.speculative is not None
    if contract.pair is None:
        why = "the files of the pair could not be read"
        return skipped(f"not checked: {why}") if ran else inconclusive(why, findings)
    both = [item for item in (contract.pair.target, contract.pair.draft) if item is not None]
    findings = [_finding(problem) for item in both for problem in item.problems] + findings
    absent = [item for item in both if item.folder is None]
    if absent and not ran and not any(finding.severity == "error" for finding in findings):
        return inconclusive("; ".join(map(_not_looked_at, absent)), findings)
    return settled(
        findings,
        compared=[_seen(item) for item in both if item.folder is not None],
        unchecked=[f"the {item.role}'s {what}" for item in both for what in _not_read(item)],
    )


def _finding(problem: Problem) -> Finding:
    return Finding(
        code="DF102",
        severity=problem.severity,
        message=problem.what,
        observed=problem.seen,
        expected="a file as it was released",
        remedy=problem.remedy,
        where=Where(file=problem.file, field=problem.field, line=problem.line),
    )


def _not_collected(part: str, why: str) -> Finding:
    return Finding(
        code="DF102",
        severity="warning",
        message=f"dflash-doctor itself failed to read the {part}",
        observed=why,
        expected="a finding or a value",
        remedy="report it, with the files if you may",
    )


def _not_looked_at(item: Checkpoint) -> str:
    why = "; ".join(problem.seen for problem in item.problems)
    return f"the {item.role} {item.name} could not be looked at: {why}"


def _seen(item: Checkpoint) -> str:
    tensors = f"{item.num_tensors} tensors" if item.tensors is not None else "no tensor header"
    return f"{item.role}: config and {tensors} read"


def _not_read(item: Checkpoint) -> list[str]:
    if item.folder is None:
        return ["files (not on this machine)"]
    if item.weight_format == "other":
        return ["tensors (no safetensors or GGUF file)"]
    return ["tensors (no weight file)"] if item.weight_format is None else []
