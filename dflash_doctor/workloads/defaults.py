"""Which workload a run uses when none was named."""

from __future__ import annotations

from pathlib import Path

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.workloads.prompts import Workload, load_prompts

PAIR_WORKLOAD = "prompts.jsonl"


def default_workload(target: str) -> Workload:
    """The pair's own workload where it has one, else the bundled prompts.

    A pair folder holds `target/`, `draft/` and `prompts.jsonl`: prompts that the drafter is meant for.
    `target/` may be a link to a model kept elsewhere; a hub id has nothing beside it.
    """
    beside = Path(target).absolute().parent / PAIR_WORKLOAD
    if Path(target).is_dir() and beside.is_file():
        return load_prompts(beside)
    return load_prompts(bundled_fixtures() / "prompts")
