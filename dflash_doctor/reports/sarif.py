"""Findings as SARIF 2.1.0, so that a code host shows them on the line of the config at fault.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import CheckRecord, Finding, RunRecord
from dflash_doctor.reports.experiment_words import untried

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render(record: RunRecord, evidence: Evidence | None) -> bytes:
    """The document; one result per finding, one rule per check that has findings."""
    checks = [check for check in record.checks if check.findings]
    indices = {check.code: index for index, check in enumerate(checks)}
    results = [_result(item, indices[check.code]) for check in checks for item in check.findings]
    document = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": record.tool.name,
                        "version": record.tool.version,
                        "rules": [_rule(check) for check in checks],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": record.verdict != "errored",
                        "toolExecutionNotifications": _notes(record),
                    }
                ],
                "results": results,
                "columnKind": "unicodeCodePoints",
            }
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=True).encode() + b"\n"


def _rule(check: CheckRecord) -> dict[str, Any]:
    return {
        "id": check.code,
        "name": "".join(part.capitalize() for part in check.name.split("-")),
        "shortDescription": {"text": check.name.replace("-", " ")},
        "help": {"text": f"dflash-doctor explain {check.code}"},
        "properties": {"tags": [check.family]},
    }


def _notes(record: RunRecord) -> list[dict[str, Any]]:
    """What could not be looked at: never silence."""
    texts = [
        f"{check.code} {check.name}: {check.reason}"
        for check in record.checks
        if "not checked" in check.reason or check.verdict == "errored"
    ]
    if record.metrics.experiments is not None:
        texts += [f"experiment not made: {reason}" for reason in untried(record.metrics.experiments)]
    return [{"level": "note", "message": {"text": text}} for text in texts]


def _result(item: Finding, index: int) -> dict[str, Any]:
    parts = [item.message]
    parts += [
        f"{name}: {text}"
        for name, text in (("seen", item.observed), ("expected", item.expected), ("do", item.remedy))
        if text
    ]
    result: dict[str, Any] = {
        "ruleId": item.code,
        "ruleIndex": index,
        "level": _LEVELS[item.severity],
        "message": {"text": ". ".join(parts) + "."},
        "partialFingerprints": {"finding/v1": _fingerprint(item)},
    }
    if item.where.file is not None:
        result["locations"] = [_location(item)]
    properties = {"edit": item.edit, "causes": list(item.causes)}
    result["properties"] = {key: value for key, value in properties.items() if value}
    return result


def _location(item: Finding) -> dict[str, Any]:
    assert item.where.file is not None, "the caller looked"
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(item.where.file)}}
    if item.where.line is not None:
        physical["region"] = {"startLine": item.where.line}
    location: dict[str, Any] = {"physicalLocation": physical}
    if item.where.field is not None:
        location["logicalLocations"] = [{"fullyQualifiedName": item.where.field, "kind": "member"}]
    return location


def _uri(file: str) -> str:
    """Relative to the working folder where the file lies in it, as code hosts want it."""
    path = Path(file)
    absolute = path if path.is_absolute() else Path.cwd() / path
    try:
        relative = absolute.relative_to(Path.cwd())
    except ValueError:
        return absolute.as_uri()
    from urllib.parse import quote

    return quote(relative.as_posix())


def _fingerprint(item: Finding) -> str:
    """The same for the same finding at the same key, whatever line it moved to."""
    name = Path(item.where.file).name if item.where.file else ""
    return hashlib.sha256(f"{item.code}/{item.message}/{name}/{item.where.field}".encode()).hexdigest()[:32]
