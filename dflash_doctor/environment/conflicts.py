"""Packages that are there and do not work together: by what they declare, and by importing them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from dflash_doctor.contract.environment import ImportProblem, VersionConflict
from dflash_doctor.environment.answers import keep, key_of, recall, stamps
from dflash_doctor.environment.installed import Distribution
from dflash_doctor.environment.time_limited import LimitedResult, run_limited

IMPORT_TIME_LIMIT_S = 90.0

Tries = Literal["none", "doubtful", "all"]

MODULES = {
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
    "torchcodec": "torchcodec",
    "flash-attn": "flash_attn",
    "flashinfer-python": "flashinfer",
    "sglang-kernel": "sgl_kernel",
}
"""Packages with parts compiled against one torch -> the module that loads them."""

_COMPANIONS = ("torchvision", "torchaudio", "torchcodec")
"""Their wheels carry the same build tag as the torch they fit (`+cpu`, `+cu130`)."""

_MEANINGS = (
    (r"operator torchvision::\w+ does not exist", "this torchvision was built for another torch"),
    (r"undefined symbol", "its compiled part was built for another torch"),
    (
        r"lib(cuda|cudart|cublas|nv\w+)[\w.-]*: cannot open",
        "it was built for CUDA, whose libraries are not here",
    ),
    (r"lib\w*hip\w*[\w.-]*: cannot open|librocm", "it was built for ROCm, whose libraries are not here"),
    (r"GLIBCXX_|GLIBC_|CXXABI_", "it was built on a newer system than this one"),
    (
        r"compiled using NumPy 1|_ARRAY_API not found|numpy\.core\.multiarray",
        "it was built for another numpy",
    ),
    (r"No module named", "a package that it needs is missing"),
    (r"cannot open shared object file", "a system library that it needs is missing"),
)


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class _Kept(msgspec.Struct, frozen=True):
    problem: ImportProblem | None


def version_conflicts(found: Mapping[str, Distribution]) -> tuple[tuple[VersionConflict, ...], int]:
    """Installed versions outside the ranges that installed packages declare, and how many ranges there are.

    Only the packages given are looked at, on both sides. A package that is missing is no conflict: sets
    that are installed without their declared dependencies leave some out on purpose.
    """
    conflicts, num_ranges = [], 0
    for name, item in found.items():
        for line in item.headers("Requires-Dist"):
            # Most lines are about packages that nobody asked about; reading them whole takes long.
            named = _NAME.match(line)
            other = found.get(canonicalize_name(named.group())) if named is not None else None
            need = _requirement(line) if other is not None else None
            if other is None or need is None or not need.specifier or not _applies(need):
                continue
            num_ranges += 1
            if _fits(need, other.version):
                continue
            conflicts.append(
                VersionConflict(
                    package=canonicalize_name(need.name),
                    version=other.version,
                    required_by=f"{name} {item.version}",
                    requirement=f"{need.name}{need.specifier}",
                )
            )
    return tuple(conflicts), num_ranges


def doubtful(found: Mapping[str, Distribution]) -> tuple[str, ...]:
    """Packages with compiled parts whose labels do not show that they fit this torch."""
    torch = found.get("torch")
    if torch is None:
        return ()
    tag = torch.version.partition("+")[2]
    names = []
    for name in MODULES:
        item = found.get(name)
        if item is None:
            continue
        own = item.version.partition("+")[2]
        # PyPI's wheels carry no tag and fit PyPI's torch, which carries none either.
        if (name in _COMPANIONS and own != tag) or (name not in _COMPANIONS and tag == "cpu"):
            names.append(name)
    return tuple(names)


def import_problems(
    found: Mapping[str, Distribution],
    *,
    tries: Tries = "doubtful",
    cache: Path | None = None,
    time_limit_s: float = IMPORT_TIME_LIMIT_S,
) -> tuple[tuple[ImportProblem, ...], tuple[str, ...], tuple[str, ...]]:
    """Packages that cannot be imported, those that were tried, and those that nobody has tried.

    Answers are kept until one of the packages or torch changes.

    Args:
        found: installed packages by name.
        tries: which to import where no answer is kept (seconds each): the doubtful ones, none, or all of them
            whatever is kept.
        cache: folder of kept answers; the user's by default.
        time_limit_s: seconds one import may take.
    """
    problems, tried, untried = [], [], []
    asked = set(MODULES) if tries == "all" else set(doubtful(found)) if tries == "doubtful" else set()
    torch = found.get("torch")
    for name in MODULES:
        item = found.get(name)
        if item is None:
            continue
        against = [(name, item.stamp)] + ([("torch", torch.stamp)] if torch is not None else [])
        key = key_of("import", name, stamps(against))
        kept = None if tries == "all" else _kept(key, cache)
        if kept is None:
            if name not in asked:
                untried.append(name)
                continue
            kept = _Kept(try_import(name, item.version, time_limit_s=time_limit_s))
            keep("import", key, kept, folder=cache)
        tried.append(name)
        if kept.problem is not None:
            problems.append(kept.problem)
    return tuple(problems), tuple(tried), tuple(untried)


def try_import(
    name: str, version: str, *, module: str | None = None, time_limit_s: float = IMPORT_TIME_LIMIT_S
) -> ImportProblem | None:
    """Import a package in a process of its own; `None` where that works."""
    script = f"import importlib; importlib.import_module({module or MODULES[name]!r})"
    done = run_limited([sys.executable, "-W", "ignore", "-c", script], time_limit_s=time_limit_s)
    if done.code == 0:
        return None
    return ImportProblem(
        package=name, version=version, error=_error(done, time_limit_s), meaning=_meaning(done, time_limit_s)
    )


def _error(done: LimitedResult, time_limit_s: float) -> str:
    if done.timed_out:
        return f"no end after {time_limit_s:g} s"
    if done.signal_name is not None:
        return f"the process died of {done.signal_name}"
    return done.last_line[:500] or f"exit status {done.code}"


def _meaning(done: LimitedResult, time_limit_s: float) -> str:
    if done.timed_out:
        return f"importing it does not finish within {time_limit_s:g} s"
    if done.signal_name is not None:
        return "its compiled part crashes while it is loaded"
    return next((text for pattern, text in _MEANINGS if re.search(pattern, done.output)), "its import fails")


def _kept(key: str, cache: Path | None) -> _Kept | None:
    try:
        return msgspec.convert(recall("import", key, folder=cache), _Kept)
    except msgspec.ValidationError:
        return None


def _requirement(line: str) -> Requirement | None:
    try:
        return Requirement(line)
    except InvalidRequirement:
        return None


def _applies(need: Requirement) -> bool:
    if need.marker is None:
        return True
    try:
        return need.marker.evaluate({"extra": ""})
    except UndefinedEnvironmentName:
        return False


def _fits(need: Requirement, version: str) -> bool:
    """Whether a version lies in the range; a version that cannot be read is not called wrong."""
    try:
        return need.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return True
