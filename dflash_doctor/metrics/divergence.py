"""Where two outputs part, and how many parted at a tie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dflash_doctor.evidence import Divergence, Evidence
from dflash_doctor.records import LosslessMetrics

Kind = Literal["tie", "fault", "untriaged"]


def first_divergence(left: Sequence[int], right: Sequence[int]) -> int | None:
    """Index of the first differing token; the shorter length where one is a prefix; `None` if equal."""
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return None if len(left) == len(right) else min(len(left), len(right))


def kind_of(divergence: Divergence, *, tie_margin: float | None) -> Kind:
    """Whether a divergence is a numerical tie of the target.

    A tie needs the two log-probabilities within the margin of each other, whichever is higher: a target
    that clearly prefers the speculative token did not follow itself in the target-only run, and that is
    no tie either.
    """
    if divergence.gap is None or tie_margin is None:
        return "untriaged"
    return "tie" if abs(divergence.gap) <= tie_margin else "fault"


def lossless_metrics(evidence: Evidence) -> LosslessMetrics | None:
    """Counts of identical, tied and faulty outputs; `None` when the arms were not compared."""
    if evidence.divergences is None or evidence.speculative is None or evidence.target_only is None:
        return None
    ids = {trace.prompt_id for trace in evidence.target_only.requests}
    num_compared = sum(trace.prompt_id in ids for trace in evidence.speculative.requests)
    margin = evidence.noise.tie_margin if evidence.noise is not None else None
    kinds = [kind_of(divergence, tie_margin=margin) for divergence in evidence.divergences]
    return LosslessMetrics(
        num_compared=num_compared,
        num_identical=num_compared - len(kinds),
        num_ties=kinds.count("tie"),
        num_faults=kinds.count("fault"),
        num_untriaged=kinds.count("untriaged"),
        tie_margin=margin,
    )
