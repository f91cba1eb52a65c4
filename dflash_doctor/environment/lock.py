"""The environment lock: a snapshot in a file, and what has changed since, weighed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dflash_doctor.contract.environment import LockDifference
from dflash_doctor.environment.answers import write_atomically
from dflash_doctor.environment.lock_weights import weigh
from dflash_doctor.errors import UsageError

FORMAT = "dflash-doctor environment lock"
VERSION = 1
_MAX_BYTES = 4 * 1024 * 1024
_MAX_DEPTH = 16
_LOCK_AGAIN = "lock this environment again: dflash-doctor env --lock FILE"
_ORDER = {"breaking": 0, "risky": 1, "harmless": 2}


class _Required(msgspec.Struct):
    """What a lock must hold: without one of these a change could not be seen."""

    python: str
    os: str
    machine: str
    gpus: list[str]
    torch_build: dict[str, str | None]
    packages: dict[str, str | None]
    commits: dict[str, str]
    development_builds: dict[str, str]
    variables: dict[str, str]


def write_lock(path: Path, snapshot: Mapping[str, Any]) -> None:
    """Write the snapshot as readable JSON, whole or not at all.

    Raises:
        UsageError: the file cannot be written.
    """
    document = {"format": FORMAT, "version": VERSION, "environment": dict(snapshot)}
    try:
        write_atomically(path, (json.dumps(document, indent=2, sort_keys=False) + "\n").encode("utf-8"))
    except OSError as error:
        raise UsageError(
            "the lock file cannot be written",
            seen=f"{path}: {error.strerror or error}",
            remedy="name a file in a folder that can be written",
        ) from error


def read_lock(path: Path) -> dict[str, Any]:
    """The locked snapshot.

    Raises:
        UsageError: there is no such file, or it is no environment lock of this version.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise _unreadable(path, f"it is larger than {_MAX_BYTES // 2**20} MiB")
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, f"not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _unreadable(path, "it was not written by env --lock")
    if document.get("version") != VERSION:
        raise _unreadable(
            path, f"lock version {document.get('version')!r}; this doctor reads {VERSION}", remedy=_LOCK_AGAIN
        )
    snapshot = document.get("environment")
    if not isinstance(snapshot, dict) or _depth(snapshot) > _MAX_DEPTH:
        raise _unreadable(path, "its environment is no table")
    try:
        msgspec.convert(snapshot, _Required)
    except msgspec.ValidationError as error:
        raise _unreadable(path, f"its environment: {error}", remedy=_LOCK_AGAIN) from error
    return snapshot


def compare(locked: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[LockDifference, ...]:
    """What is not as locked, heaviest first; empty where all is.

    Args:
        locked: the snapshot in the lock file.
        found: a snapshot taken now.
    """
    # As it would be written: a list that was a tuple is no difference.
    locked, found = _plain(locked), _plain(found)
    if locked == found:
        return ()
    differences = []
    for keys, before, after in _changes(locked, found):
        weighed = weigh(keys, before, after, locked=locked, found=found)
        if weighed is None:
            continue
        differences.append(
            LockDifference(
                what=" ".join(map(str, keys)),
                locked=before,
                found=after,
                weight=weighed.weight,
                reason=weighed.reason,
            )
        )
    return tuple(sorted(differences, key=lambda item: (_ORDER[item.weight], item.what)))


def _changes(locked: Any, found: Any) -> list[tuple[list[Any], Any, Any]]:
    """Key path, value before, value now: of each changed leaf; a list counts as one leaf."""
    # Takes 0.4 s to import, and most environments are as locked.
    from deepdiff import DeepDiff

    flat = []
    for group in DeepDiff(_lists_as_text(locked), _lists_as_text(found), view="tree").values():
        for item in group:
            keys = list(item.path(output_format="list"))
            flat += _leaves(keys, _at(locked, keys), _at(found, keys))
    return flat


def _lists_as_text(value: Any) -> Any:
    """A list is one leaf: which of its items moved where is nobody's question, and slow to answer."""
    if isinstance(value, dict):
        return {key: _lists_as_text(item) for key, item in value.items()}
    return json.dumps(value) if isinstance(value, list) else value


def _leaves(keys: list[Any], before: Any, after: Any) -> list[tuple[list[Any], Any, Any]]:
    """A whole table that came or went, taken apart: each entry is weighed by itself."""
    table = before if isinstance(before, dict) else after
    other = after if table is before else before
    if not isinstance(table, dict) or not isinstance(other, dict | None):
        return [(keys, before, after)]
    return [
        leaf
        for name in table
        for leaf in _leaves(
            [*keys, name],
            before.get(name) if isinstance(before, dict) else None,
            after.get(name) if isinstance(after, dict) else None,
        )
    ]


def _at(document: Any, keys: list[Any]) -> Any:
    for key in keys:
        if not isinstance(document, dict) or key not in document:
            return None
        document = document[key]
    return document


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _depth(value: Any, depth: int = 0) -> int:
    if depth > _MAX_DEPTH or not isinstance(value, dict | list):
        return depth
    items = value.values() if isinstance(value, dict) else value
    return max((_depth(item, depth + 1) for item in items), default=depth)


def _unreadable(
    path: Path, why: str, *, remedy: str = "name a file that dflash-doctor env --lock wrote"
) -> UsageError:
    return UsageError(
        "the lock file cannot be read",
        seen=f"{path}: {why}",
        remedy=remedy,
    )
