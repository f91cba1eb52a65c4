"""The interventions, in the order in which they are tried: what goes wrong most often first."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_doctor.experiments.base import Planner, Subject, TrialPlan, distinct
from dflash_doctor.experiments.interventions import attention, head, layers, mask, precision, rotary, taps

INTERVENTIONS: tuple[Planner, ...] = (
    mask.plans, rotary.plans, taps.plans, head.plans, attention.plans, precision.plans, layers.plans,
)  # fmt: skip


def interventions(subject: Subject) -> Iterator[TrialPlan]:
    """Every intervention that this pair allows."""
    yield from distinct(plan for planner in INTERVENTIONS for plan in planner(subject))
