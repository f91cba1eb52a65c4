"""The run record as JSON."""

from __future__ import annotations

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import RunRecord
from dflash_doctor.runs import encode_record


def render(record: RunRecord, evidence: Evidence | None) -> bytes:
    """The record, indented, with a final newline; evidence stays in its trace file."""
    return encode_record(record)
