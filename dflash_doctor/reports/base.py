"""What a report format is: a module with `render(record, evidence) -> bytes`.

Reports read the run record and, where they show single requests, the evidence of its trace file.
Everything in both is untrusted text: each writer escapes for its own format, and writes out what cannot
be seen (`wording.visible`).
"""

from __future__ import annotations

from typing import Protocol

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import RunRecord


class Renderer(Protocol):
    """The one function of a report module."""

    def __call__(self, record: RunRecord, evidence: Evidence | None) -> bytes:
        """The whole document, encoded; the same record and evidence give the same bytes.

        Args:
            record: the run.
            evidence: of its trace file; `None` where it is not at hand, and then single requests are
                not shown.
        """
