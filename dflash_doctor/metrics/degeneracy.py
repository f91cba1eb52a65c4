"""Recognises output that repeats itself: a drafter follows a loop perfectly, so its acceptance is void."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

MAX_PERIOD = 8
"""Loops longer than this many tokens are texts that repeat phrases, which real answers do as well."""


class Degeneracy(msgspec.Struct, frozen=True, kw_only=True):
    """How repetitive one output is."""

    num_tokens: int
    longest_equal_run: int
    """Most times in a row that one token stands."""
    longest_periodic_run: int
    """Tokens of the longest stretch that repeats with a period of 1 to `MAX_PERIOD`, at least twice."""
    distinct_bigram_rate: float | None
    """Distinct pairs of neighbours / pairs; `None` for fewer than two tokens."""


def degeneracy_of(output_ids: Sequence[int]) -> Degeneracy:
    """Repetition of one output."""
    bigrams = list(pairwise(output_ids))
    return Degeneracy(
        num_tokens=len(output_ids),
        longest_equal_run=_longest_periodic(output_ids, 1),
        longest_periodic_run=max(
            (_longest_periodic(output_ids, period) for period in range(1, MAX_PERIOD + 1)), default=0
        ),
        distinct_bigram_rate=len(set(bigrams)) / len(bigrams) if bigrams else None,
    )


def _longest_periodic(tokens: Sequence[int], period: int) -> int:
    """Length of the longest stretch with this period, seen at least twice (once for period 1)."""
    best = 1 if tokens and period == 1 else 0
    run = 0
    for index in range(period, len(tokens)):
        run = run + 1 if tokens[index] == tokens[index - period] else 0
        if run >= period:
            best = max(best, run + period)
    return best
