"""Rotary embedding: another base, the whole of each head, the other layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dflash_doctor.experiments.base import Subject, TrialPlan, number
from dflash_doctor.reference.knobs import Knobs

_COMMON_BASES = (1e4, 1e6, 5e5, 1e7, 5e6, 1e5, 1.5e5, 2.5e5, 8e6)
"""Bases of published targets and drafters, and the default of the code."""


def plans(subject: Subject) -> Iterable[TrialPlan]:
    """Bases, parts and layouts worth trying."""
    yield from _bases(subject)
    yield from _parts(subject)
    flipped = subject.reading.neox is False
    kinds = ("neighbouring pairs", "halves")
    yield TrialPlan(
        name=f"rotary-layout {kinds[flipped]}",
        cause="rotary-layout",
        knobs=Knobs(neox=flipped),
        change=f"rotary layout {kinds[not flipped]} -> {kinds[flipped]}",
        remedy=subject.edit("is_neox_style", "is_neox_style", str(flipped).lower())
        + f" (SGLang: rope_is_neox_style = {str(flipped).lower()})",
    )


def _bases(subject: Subject) -> Iterator[TrialPlan]:
    draft, target = subject.contract.draft_config, subject.contract.target_config
    own = subject.reading.rope_theta or 1e4
    candidates = [
        subject.trained.rope_theta,
        draft.rope_theta if draft else None,
        draft.nested_rope_theta if draft else None,
        target.theta if target else None,
        *_COMMON_BASES,
    ]
    for base in dict.fromkeys(item for item in candidates if item and item != own):
        yield TrialPlan(
            name=f"rotary-theta {number(base)}",
            cause="rotary-theta",
            knobs=Knobs(rope_theta=base),
            change=f"rope_theta {number(own)} -> {number(base)}",
            remedy=subject.edit("nested_rope_theta", "rope_parameters.rope_theta", number(base))
            + " and at top level",
        )


def _parts(subject: Subject) -> Iterator[TrialPlan]:
    target = subject.contract.target_config
    own = subject.reading.partial_rotary_factor or 1.0
    candidates = (
        1.0,
        subject.trained.partial_rotary_factor,
        target.partial_rotary_factor if target else None,
    )
    for part in dict.fromkeys(item for item in candidates if item and item != own):
        yield TrialPlan(
            name=f"rotary-part {number(part)}",
            cause="rotary-partial-factor",
            knobs=Knobs(partial_rotary_factor=part),
            change=f"partial_rotary_factor {number(own)} -> {number(part)}",
            remedy=subject.edit("partial_rotary_factor", "partial_rotary_factor", number(part)),
        )
