"""Which workload a run uses when none was named."""

from __future__ import annotations

from pathlib import Path

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.workloads.prompts import Workload, load_prompts

PAIR_WORKLOAD = "prompts.jsonl"


def default_workload(target: str) -> Workload:
    """The pair's own workload where it has one, else the bundled prompts.

    A pair folder holds `target/`, `draft/` and `prompts.jsonl`: prompts that the drafter is meant for.
    """
    beside = Path(target).resolve().parent / PAIR_WORKLOAD
    if beside.is_file():
        return load_prompts(beside)
    return load_prompts(bundled_fixtures() / "prompts")
