"""Recognises output that repeats itself: a drafter follows a loop perfectly, so its acceptance is void."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

MAX_PERIOD = 8
"""Loops longer than this many tokens are texts that repeat phrases, which real answers do as well."""
REPEAT_RUN = 32
"""This many equal tokens in a row void a sample."""
DISTINCT_BIGRAM_RATE = 0.2
"""A longer answer with fewer distinct bigrams than this share is void."""
MIN_TOKENS_FOR_BIGRAMS = 64
"""Shorter answers repeat pairs for good reasons: lists, tables, JSON."""


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


def void_reason(
    output_ids: Sequence[int],
    *,
    repeat_run: int = REPEAT_RUN,
    distinct_bigram_rate: float = DISTINCT_BIGRAM_RATE,
) -> str | None:
    """Why the acceptance of a sample with this output means nothing, in words; `None` when it does."""
    longest = _longest_periodic(output_ids, 1)
    if longest >= repeat_run:
        return f"holds one token {longest} times in a row"
    if len(output_ids) >= MIN_TOKENS_FOR_BIGRAMS:
        rate = len(set(pairwise(output_ids))) / (len(output_ids) - 1)
        if rate < distinct_bigram_rate:
            return f"has only {100 * rate:.0f} % distinct token pairs"
    return None


def _longest_periodic(tokens: Sequence[int], period: int) -> int:
    """Length of the longest stretch with this period, seen at least twice (once for period 1)."""
    best = 1 if tokens and period == 1 else 0
    run = 0
    for index in range(period, len(tokens)):
        run = run + 1 if tokens[index] == tokens[index - period] else 0
        if run >= period:
            best = max(best, run + period)
    return best
