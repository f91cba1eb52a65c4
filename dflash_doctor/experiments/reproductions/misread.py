"""Fields that the engine may have taken otherwise than its reading says: the interventions, put in."""

from __future__ import annotations

from collections.abc import Iterable

from dflash_doctor.experiments.base import Subject, TrialPlan
from dflash_doctor.experiments.interventions import attention, mask, rotary, taps
from dflash_doctor.reference.knobs import Knobs

_FIX = "use an engine release that reads it; the files are right"


def plans(subject: Subject) -> Iterable[TrialPlan]:
    """Every other setting of taps, mask, rotary embedding and attention."""
    for planner in (taps.plans, mask.plans, rotary.plans, attention.plans):
        for plan in planner(subject):
            yield TrialPlan(
                name=f"engine with {plan.name}",
                cause=plan.cause,
                knobs=plan.knobs,
                change=f"in the engine: {plan.change}",
                remedy=_FIX,
            )
    yield from _tables(subject)


def _tables(subject: Subject) -> Iterable[TrialPlan]:
    root = subject.facts.hidden_size**0.5
    for scale in (root, 1 / root):
        yield TrialPlan(
            name=f"engine with embedding x {scale:.4g}",
            cause="embedding-scale-missing",
            knobs=Knobs(embedding_scale=scale),
            change=f"in the engine: embeddings of the block x {scale:.4g}",
            remedy="use an engine release whose drafter class applies the target's embedding scale",
        )
    if subject.facts.has_own_head:
        yield TrialPlan(
            name="engine with the target's head",
            cause="draft-head-overwritten",
            knobs=Knobs(head="target"),
            change="in the engine: the drafter's own head replaced by the target's",
            remedy="use an engine release that keeps the drafter's own head",
        )
        yield TrialPlan(
            name="engine without vocab map",
            cause="draft-vocab-map-broken",
            knobs=Knobs(vocab_map="none"),
            change="in the engine: draft ids taken as target ids",
            remedy="use an engine release that applies d2t",
        )
