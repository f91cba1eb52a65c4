"""Tensors that were never loaded."""

from __future__ import annotations

from collections.abc import Iterable

from dflash_doctor.experiments.base import Subject, TrialPlan
from dflash_doctor.reference.knobs import Knobs

_MOST = 120


def plans(subject: Subject) -> Iterable[TrialPlan]:
    """Each tensor at its initial value, then each layer as a whole."""
    names = subject.facts.tensor_names
    for name in names[:_MOST]:
        yield _plan(name, (name,))
    for index in range(subject.facts.num_layers):
        prefix = f"layers.{index}."
        yield _plan(f"layer {index}", tuple(item for item in names if item.startswith(prefix)))


def _plan(what: str, names: tuple[str, ...]) -> TrialPlan:
    return TrialPlan(
        name=f"{what} not loaded",
        cause="draft-weights-not-loaded",
        knobs=Knobs(unset_tensors=names),
        change=f"{what} at its initial value",
        remedy="compare the tensor names of the file with what the engine maps; use a release that loads it",
    )
