"""Tensors that were never loaded."""

from __future__ import annotations

from collections.abc import Iterable

from dflash_doctor.experiments.base import Subject, TrialPlan
from dflash_doctor.reference.knobs import Knobs

_MOST = 120
_REMEDY = "compare the tensor names of the file with what the engine maps; use a release that loads it"


def plans(subject: Subject) -> Iterable[TrialPlan]:
    """Each tensor at its initial value, then each layer as a whole."""
    names = subject.facts.tensor_names
    for name in names[:_MOST]:
        yield _plan(name, (name,))
    yield TrialPlan(
        name="features without their norm",
        cause="draft-weights-not-loaded",
        knobs=Knobs(features_scaled=1.0),
        change="the target's features enter the drafter without hidden_norm",
        remedy=_REMEDY,
    )
    yield from _kinds(names)
    for index in range(subject.facts.num_layers):
        prefix = f"layers.{index}."
        yield _plan(f"layer {index}", tuple(item for item in names if item.startswith(prefix)))


def _plan(what: str, names: tuple[str, ...]) -> TrialPlan:
    return TrialPlan(
        name=f"{what} not loaded",
        cause="draft-weights-not-loaded",
        knobs=Knobs(unset_tensors=names),
        change=f"{what} at its initial value",
        remedy=_REMEDY,
    )


def _kinds(names: tuple[str, ...]) -> Iterable[TrialPlan]:
    """Norms of a kind in every layer at once, at one and at zero."""
    suffixes = dict.fromkeys(name.split(".")[-2] for name in names if "norm" in name)
    groups = {suffix: tuple(name for name in names if f".{suffix}." in f".{name}") for suffix in suffixes}
    if {"q_norm", "k_norm"} <= groups.keys():
        groups["q_norm and k_norm"] = groups["q_norm"] + groups["k_norm"]
    for kind, members in groups.items():
        yield _plan(kind, members)
        yield TrialPlan(
            name=f"{kind} zero",
            cause="draft-weights-not-loaded",
            knobs=Knobs(zeroed_tensors=members),
            change=f"{kind} zero",
            remedy=_REMEDY,
        )
