"""Reads JSON files of a checkpoint: bounded, and with the line of every key."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dflash_doctor.checkpoints.files import UnfitFileError, exists, read_text, shown
from dflash_doctor.checkpoints.json_lines import key_lines
from dflash_doctor.contract.pair import Problem

_MAX_REPORTED = 20
"""Keys written twice; a file with more is no config at all."""
MAX_CONFIG_BYTES = 16 * 1024 * 1024
"""Real configs are a few kilobytes; a larger file is something else."""


@dataclass(frozen=True)
class JsonFile:
    """An object read from a file; `value` is `None` where there is none, and `problems` says why."""

    path: Path
    value: dict[str, Any] | None = None
    lines: dict[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    text: str = ""


def read_json_object(
    path: Path, *, max_bytes: int = MAX_CONFIG_BYTES, required: bool = True, located: bool = True
) -> JsonFile:
    """The JSON object in a file, and everything that is wrong with it; never raises.

    Args:
        path: the file.
        max_bytes: larger files are not read.
        required: whether a missing file is a problem.
        located: whether the lines of the keys are wanted; large machine-written files go without.
    """
    if not required and not exists(path):
        return JsonFile(path)
    duplicates: list[str] = []
    constants: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) < len(items):
            counts = Counter(name for name, _ in items)
            duplicates.extend(name for name, count in counts.items() if count > 1)
        return result

    def constant(name: str) -> float:
        constants.append(name)
        return float(name)

    try:
        text = read_text(path, max_bytes=max_bytes)
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
        if "\\ud" in text or "\\uD" in text:
            value = _without_half_characters(value)
    except UnfitFileError as error:
        return _unreadable(path, str(error), remedy=error.remedy)
    except json.JSONDecodeError as error:
        return _unreadable(path, f"{error.msg} at line {error.lineno}", line=error.lineno)
    except ValueError as error:
        return _unreadable(path, str(error))
    except RecursionError:
        return _unreadable(path, "it is nested too deeply")
    if not isinstance(value, dict):
        return _unreadable(path, f"it holds a JSON {type(value).__name__}, not an object")
    lines = key_lines(text) if located else {}
    problems = (*_twice(path, duplicates, lines), *_no_numbers(path, constants))
    return JsonFile(path, value, lines, problems, text)


def _twice(path: Path, duplicates: list[str], lines: dict[str, int]) -> list[Problem]:
    names = [shown(name) for name in dict.fromkeys(duplicates)][:_MAX_REPORTED]
    return [
        Problem(
            severity="warning",
            file=shown(path, 4096),
            what=f"the key {name!r} is written twice",
            seen="the last value counts, and readers of other languages may take the first",
            remedy="remove one",
            field=name,
            line=lines.get(name),
        )
        for name in names
    ]


def _no_numbers(path: Path, constants: list[str]) -> list[Problem]:
    if not constants:
        return []
    problem = Problem(
        severity="info",
        file=shown(path, 4096),
        what=f"{constants[0]} is not JSON",
        seen="Python reads it, and readers of other languages refuse the file",
        remedy="replace it if another reader is to open the file",
    )
    return [problem]


def _without_half_characters(value: Any) -> Any:
    """The value with lone surrogates replaced: they can be written in JSON, and stored nowhere."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_without_half_characters(item) for item in value]
    if isinstance(value, dict):
        return {_without_half_characters(key): _without_half_characters(item) for key, item in value.items()}
    return value


def _unreadable(path: Path, why: str, *, line: int | None = None, remedy: str | None = None) -> JsonFile:
    problem = Problem(
        severity="error",
        file=shown(path, 4096),
        what=f"{shown(path.name)} cannot be read",
        seen=shown(why),
        remedy=shown(remedy or "restore the file from the original release", 4096),
        line=line,
    )
    return JsonFile(path, problems=(problem,))
