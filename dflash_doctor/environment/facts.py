"""Everything the environment checks look at, from files and package metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from dflash_doctor.contract.environment import EnvironmentFacts, LockComparison
from dflash_doctor.environment.conflicts import import_problems, version_conflicts
from dflash_doctor.environment.installed import describe, find_all
from dflash_doctor.environment.known_bad import matching_rows
from dflash_doctor.environment.lock import compare, read_lock
from dflash_doctor.environment.pins import pin_facts
from dflash_doctor.environment.registry import registries
from dflash_doctor.environment.snapshot import environment_snapshot
from dflash_doctor.errors import UsageError


def environment_facts(
    project_folder: Path | None,
    *,
    lock: Path | None = None,
    path: Sequence[str] | None = None,
    serving: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    probe: bool = False,
    cache: Path | None = None,
) -> EnvironmentFacts:
    """What is installed, pinned and locked.

    Nothing is imported in this process. A package with compiled parts whose labels do not show that it
    fits torch is imported once in a process of its own; the answer is kept until a package changes.

    Args:
        project_folder: whose requirement files say what is pinned; `None`: nobody's.
        lock: lock file to compare with.
        path: folders of installed packages; `sys.path` by default.
        serving: package -> version of engines that serve from elsewhere; they count as installed for the
            table of known-bad versions.
        environ: the environment; the process's own by default.
        probe: import the engines and every package with compiled parts (seconds each), and keep the answers.
        cache: folder of kept answers; the user's by default.
    """
    found = find_all(path)
    conflicts, num_ranges = version_conflicts(found)
    problems, tried, untried = import_problems(found, tries="all" if probe else "doubtful", cache=cache)
    versions = {name: item.version for name, item in found.items()} | dict(serving or {})
    rows, num_asked = matching_rows(versions)
    return EnvironmentFacts(
        packages=tuple(describe(name, item) for name, item in found.items()),
        registries=registries(found, probe=probe, cache=cache),
        import_problems=problems,
        imports_tried=tried,
        imports_untried=untried,
        version_conflicts=conflicts,
        ranges_checked=num_ranges,
        pins=pin_facts(project_folder) if project_folder is not None else None,
        lock=lock_comparison(lock, path=path, environ=environ, cache=cache) if lock is not None else None,
        known_bad=rows,
        known_bad_asked=num_asked,
    )


def lock_comparison(
    lock: Path,
    *,
    path: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    cache: Path | None = None,
) -> LockComparison:
    """This environment against a lock file; a lock that cannot be read is said in `error`."""
    try:
        locked = read_lock(lock)
    except UsageError as error:
        return LockComparison(file=str(lock), error=error.seen)
    found = environment_snapshot(environ, with_registries=True, path=path, cache=cache)
    if found["gpus"] != locked.get("gpus"):
        # The driver's files name NVIDIA GPUs only; its tool is asked before a difference is claimed.
        found = environment_snapshot(
            environ, with_registries=True, ask_driver_tool=True, path=path, cache=cache
        )
    return LockComparison(file=str(lock), differences=compare(locked, json.loads(json.dumps(found))))
