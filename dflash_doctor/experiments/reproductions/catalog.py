"""The reproductions, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_doctor.experiments.base import Planner, Subject, TrialPlan, distinct
from dflash_doctor.experiments.reproductions import alignment, misread, tensors

REPRODUCTIONS: tuple[Planner, ...] = (alignment.plans, misread.plans, tensors.plans)


def reproductions(subject: Subject) -> Iterator[TrialPlan]:
    """Every defect that can be put in for this pair."""
    yield from distinct(plan for planner in REPRODUCTIONS for plan in planner(subject))
