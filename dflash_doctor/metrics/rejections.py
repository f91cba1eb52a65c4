"""Which draft tokens were refused, and what the target chose instead."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from dflash_doctor.evidence import RequestTrace
from dflash_doctor.records import RejectedPair, RejectionMetrics

MAX_PAIRS = 20
NEAR_MISS_RANKS = range(2, 6)
"""A refused token that was the target's second to fifth choice."""
_RANK_BINS = (("1", 1), ("2", 2), ("3-5", 5), ("6-20", 20))
_LAST_RANK_BIN = "21+"


def rejection_metrics(
    requests: Sequence[RequestTrace], *, label: str, token_texts: Mapping[int, str]
) -> RejectionMetrics:
    """Breakdown of the steps that ended in a rejection inside the text.

    The last step of a request may go on past the end of its text; a draft token refused there cost nobody
    anything and is left out.

    Args:
        requests: with steps at level *token*; steps without ids count as rejections without a pair.
        label: name of the slice.
        token_texts: for showing the pairs; an unknown id shows as `<id>`.
    """
    num_rejections = num_complete = num_first = num_ranked = num_near = 0
    ranks: Counter[str] = Counter()
    pairs: Counter[tuple[int, int]] = Counter()
    logprobs: dict[tuple[int, int], list[float]] = defaultdict(list)
    for trace in requests:
        end = len(trace.prompt_ids) + len(trace.output_ids)
        for step in trace.steps or ():
            if step.position is not None and step.position + step.num_accepted >= end:
                continue
            if step.num_accepted >= step.num_drafted:
                num_complete += 1
                continue
            num_rejections += 1
            num_first += step.num_accepted == 0
            if step.rejected_rank is not None:
                num_ranked += 1
                num_near += step.rejected_rank in NEAR_MISS_RANKS
                ranks[_rank_bin(step.rejected_rank)] += 1
            if step.rejected_id is not None and step.chosen_id is not None:
                pair = (step.rejected_id, step.chosen_id)
                pairs[pair] += 1
                if step.rejected_logprob is not None:
                    logprobs[pair].append(step.rejected_logprob)
    names = [name for name, _ in _RANK_BINS] + [_LAST_RANK_BIN]
    return RejectionMetrics(
        label=label,
        num_rejections=num_rejections,
        num_fully_accepted=num_complete,
        first_position_share=num_first / num_rejections if num_rejections else None,
        near_miss_share=num_near / num_ranked if num_ranked else None,
        rank_histogram={name: ranks[name] for name in names} if num_ranked else {},
        pairs=tuple(
            RejectedPair(
                drafted_id=drafted,
                chosen_id=chosen,
                drafted_text=token_texts.get(drafted, f"<{drafted}>"),
                chosen_text=token_texts.get(chosen, f"<{chosen}>"),
                count=count,
                mean_rejected_logprob=_mean(logprobs[drafted, chosen]),
            )
            # Equal counts are ordered by id, so that two runs list the same pairs.
            for (drafted, chosen), count in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[
                :MAX_PAIRS
            ]
        ),
    )


def _rank_bin(rank: int) -> str:
    return next((name for name, highest in _RANK_BINS if rank <= highest), _LAST_RANK_BIN)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
