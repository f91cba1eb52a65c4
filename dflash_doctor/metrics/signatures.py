"""Patterns in the draft tokens themselves that point at a kind of defect, before any experiment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import msgspec

from dflash_doctor.evidence import RequestTrace


class DraftSignature(msgspec.Struct, frozen=True, kw_only=True):
    """Shares over the drafts of a pass; `None` where no draft could tell."""

    num_drafts: int
    repeated_token_share: float | None
    """Neighbouring draft tokens that are equal / neighbours: a drafter blind to its position repeats."""
    constant_draft_share: float | None
    """Drafts that are one token throughout."""
    lowest_ids_share: float | None
    """Drafts that read 0, 1, 2, ...: what an argmax over not-a-number, or a candidate list, gives."""
    agreement: float | None
    """Draft tokens equal to the final text at their own place, whether or not they were reached."""
    agreement_one_early: float | None
    """Draft tokens equal to the text one place before: an anchor slot was read as a prediction."""
    agreement_one_late: float | None
    """Draft tokens equal to the text one place after."""


def draft_signature(requests: Sequence[RequestTrace]) -> DraftSignature:
    """Patterns over all drafts at level *token*."""
    drafts = list(_drafts(requests))
    neighbours = sum(max(0, len(draft) - 1) for draft, _, _ in drafts)
    repeated = sum(left == right for draft, _, _ in drafts for left, right in pairwise(draft))
    long_enough = [draft for draft, _, _ in drafts if len(draft) > 1]
    return DraftSignature(
        num_drafts=len(drafts),
        repeated_token_share=repeated / neighbours if neighbours else None,
        constant_draft_share=_share(len(set(draft)) == 1 for draft in long_enough),
        lowest_ids_share=_share(draft == tuple(range(len(draft))) for draft in long_enough),
        agreement=_agreement(drafts, 0),
        agreement_one_early=_agreement(drafts, -1),
        agreement_one_late=_agreement(drafts, 1),
    )


_Draft = tuple[tuple[int, ...], tuple[int, ...], int]
"""Draft tokens, the request's whole token sequence, and the place of the first draft token in it."""


def _drafts(requests: Sequence[RequestTrace]) -> Iterator[_Draft]:
    for trace in requests:
        tokens = trace.prompt_ids + trace.output_ids
        for step in trace.steps or ():
            if step.draft_ids and step.position is not None:
                yield step.draft_ids, tokens, step.position


def _agreement(drafts: Sequence[_Draft], shift: int) -> float | None:
    compared = equal = 0
    for draft, tokens, position in drafts:
        for offset, token in enumerate(draft):
            place = position + offset + shift
            if 0 <= place < len(tokens):
                compared += 1
                equal += token == tokens[place]
    return equal / compared if compared else None


def _share(hits: Iterable[bool]) -> float | None:
    values = list(hits)
    return sum(values) / len(values) if values else None
