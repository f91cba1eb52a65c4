"""Writes the reports that every run gets."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import Artifacts, RunRecord
from dflash_doctor.reports.catalog import load_renderer
from dflash_doctor.runs import REPORT_NAME, replacing


def write_reports(record: RunRecord, evidence: Evidence | None, folder: Path) -> Artifacts:
    """Write the HTML report into the run folder, whole or not at all; returns the record's artifacts with it.

    Raises:
        OSError: the folder cannot be written; an older report is left as it was.
    """
    artifacts = msgspec.structs.replace(record.artifacts, report=REPORT_NAME)
    document = load_renderer("html")(msgspec.structs.replace(record, artifacts=artifacts), evidence)
    with replacing(folder / REPORT_NAME) as file:
        file.write(document)
    return artifacts
