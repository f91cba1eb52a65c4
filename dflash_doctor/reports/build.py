"""Writes the reports that every run gets."""

from __future__ import annotations

from pathlib import Path

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import RunRecord
from dflash_doctor.reports.catalog import load_renderer
from dflash_doctor.runs import REPORT_NAME, replacing


def write_reports(record: RunRecord, evidence: Evidence, folder: Path) -> Path:
    """Write the HTML report into the run folder; returns its path."""
    path = folder / REPORT_NAME
    document = load_renderer("html")(record, evidence)
    with replacing(path) as file:
        file.write(document)
    return path
