"""The drafter in float32."""

from __future__ import annotations

from collections.abc import Iterable

from dflash_doctor.experiments.base import Subject, TrialPlan
from dflash_doctor.reference.knobs import Knobs


def plans(subject: Subject) -> Iterable[TrialPlan]:
    """Float32, where the drafter runs in less."""
    if subject.facts.dtype == "float32":
        return
    yield TrialPlan(
        name="dtype float32",
        cause="draft-dtype-overflow",
        knobs=Knobs(dtype="float32"),
        change=f"drafter in {subject.facts.dtype} -> float32",
        remedy="serve the drafter in bfloat16 (range of float32), or in float32",
    )
