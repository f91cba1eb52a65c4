"""Names the machine that a benchmark ran on: a number without it says nothing."""

from __future__ import annotations

from dflash_doctor.environment.snapshot import environment_snapshot


def machine() -> str:
    """CPU, cores and memory in one line."""
    found = environment_snapshot()
    return f"{found['cpu']}, {found['num_cpus']} cores, {found['memory_gib']} GiB, Python {found['python']}"
