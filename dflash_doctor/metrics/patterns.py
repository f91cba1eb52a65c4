"""Patterns in an engine's drafts that no working drafter makes: each is a defect seen, not inferred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from dflash_doctor.evidence import RequestTrace
from dflash_doctor.metrics.statistics import ratio_estimate
from dflash_doctor.records import Estimate
from dflash_doctor.trials import ReferenceText


class EmptyDrafts(msgspec.Struct, frozen=True, kw_only=True):
    """Drafts that are token 0 throughout, or 0, 1, 2, ...: what stands where nothing was computed."""

    num_drafts: int
    num_empty: int
    past_length: int | None
    """All of them, and hardly any other, lie past this many tokens; `None` where length does not tell."""


def empty_drafts(requests: Sequence[RequestTrace]) -> EmptyDrafts:
    """Count them, and find out whether they begin at a length.

    The length is the one that tells them apart best; it counts where at most one draft in twenty lies on the
    wrong side of it.
    """
    places: list[tuple[int, bool]] = []
    for trace in requests:
        for step in trace.steps or ():
            if step.draft_ids and len(step.draft_ids) > 1 and step.position is not None:
                places.append((step.position, _is_empty(step.draft_ids)))
    num_empty = sum(empty for _, empty in places)
    return EmptyDrafts(
        num_drafts=len(places), num_empty=num_empty, past_length=_separating(sorted(places), num_empty)
    )


def _is_empty(draft: tuple[int, ...]) -> bool:
    return not any(draft) or draft == tuple(range(len(draft)))


def _separating(places: Sequence[tuple[int, bool]], num_empty: int) -> int | None:
    """The position below which few drafts are empty and from which on few are not."""
    if num_empty == 0 or num_empty == len(places):
        return None
    best, best_wrong = None, len(places)
    # Cut before the first: every draft that is not empty is wrong.
    wrong = len(places) - num_empty
    for position, empty in places:
        if wrong < best_wrong:
            best, best_wrong = position, wrong
        wrong += 1 if empty else -1
    return best if best_wrong <= 0.05 * len(places) else None


class IdOffset(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between the engine's draft ids and the reference's that comes again and again."""

    offset: int
    """Engine's id - reference's id."""
    num_drafts: int
    """Draft tokens that differ by it."""
    num_unequal: int
    num_compared: int


def id_offset(texts: Sequence[ReferenceText]) -> IdOffset | None:
    """The commonest difference; `None` where nothing was compared or all is equal."""
    offsets: Counter[int] = Counter()
    for text in texts:
        offsets.update(text.engine_offsets)
    compared = sum(text.engine_compared or 0 for text in texts)
    unequal = compared - sum(text.engine_equal or 0 for text in texts)
    if not offsets or unequal <= 0:
        return None
    [(offset, count)] = offsets.most_common(1)
    return IdOffset(offset=offset, num_drafts=count, num_unequal=unequal, num_compared=compared)


def loss_after_rejection(texts: Sequence[ReferenceText]) -> tuple[Estimate, Estimate]:
    """Share of equal drafts at steps behind a refusal, and at the others.

    What a refused draft leaves behind in the drafter's context shows at the next step and nowhere else.
    """
    after = [text.equal_after_rejection for text in texts]
    others = [
        ((text.engine_equal or 0) - equal, (text.engine_compared or 0) - compared)
        for text, (equal, compared) in zip(texts, after, strict=True)
    ]
    return _share(after), _share(others)


def _share(pairs: Sequence[tuple[int, int]]) -> Estimate:
    return ratio_estimate(
        [equal for equal, _ in pairs], [compared for _, compared in pairs], bounds=(0.0, 1.0)
    )
