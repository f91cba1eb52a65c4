"""stub"""

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import RunRecord


def render(record: RunRecord, evidence: Evidence | None) -> bytes:
    return b"<html></html>"
