"""All verify steps of a pass as columns, so that every slice is one mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dflash_doctor.evidence import RequestTrace, ThinkingTokens

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class StepTable:
    """One row a step, in text order within each request.

    Attributes:
        num_requests: requests that the rows belong to, also those without a step.
        request: index of the row's request.
        drafted: draft tokens of the step.
        accepted: accepted of these.
        kept: tokens of the step that are in the final text (accepted + 1, less the overshoot).
        position: tokens before the first one that the step emitted (prompt + output so far).
        thinking: whether that first token lies inside an open thinking block.
    """

    num_requests: int
    request: Ints
    drafted: Ints
    accepted: Ints
    kept: Ints
    position: Ints
    thinking: Mask

    def per_request(self, values: NDArray[np.int64] | Mask, where: Mask) -> Ints:
        """Sum of `values` over the rows in `where`, for each request."""
        sums = np.bincount(
            self.request[where], weights=values[where].astype(float), minlength=self.num_requests
        )
        return sums.astype(np.int64)

    def __len__(self) -> int:
        return int(self.request.size)


def step_table(requests: Sequence[RequestTrace], *, thinking: ThinkingTokens | None = None) -> StepTable:
    """Columns of the steps of these requests; requests without steps have no rows.

    Where an engine gives counts only, positions follow from them: prefill emits one token, each step
    accepted + 1.
    """
    request: list[int] = []
    drafted: list[int] = []
    accepted: list[int] = []
    kept: list[int] = []
    position: list[int] = []
    inside: list[Mask] = []
    for index, trace in enumerate(requests):
        steps = trace.steps or ()
        if not steps:
            continue
        end = len(trace.prompt_ids) + len(trace.output_ids)
        place = len(trace.prompt_ids) + 1
        places = []
        for step in steps:
            place = step.position if step.position is not None else place
            places.append(place)
            emitted = step.num_accepted + 1
            kept.append(max(0, min(emitted, end - place)))
            place += emitted
        request += [index] * len(steps)
        drafted += [step.num_drafted for step in steps]
        accepted += [step.num_accepted for step in steps]
        position += places
        inside.append(_inside_thinking(trace, places, thinking))
    return StepTable(
        num_requests=len(requests),
        request=np.asarray(request, np.int64),
        drafted=np.asarray(drafted, np.int64),
        accepted=np.asarray(accepted, np.int64),
        kept=np.asarray(kept, np.int64),
        position=np.asarray(position, np.int64),
        thinking=np.concatenate(inside) if inside else np.zeros(0, bool),
    )


def _inside_thinking(trace: RequestTrace, places: Sequence[int], thinking: ThinkingTokens | None) -> Mask:
    """For each place, whether the last thinking marker before it opened a block.

    Prompt and output count: a template may open the block, or open and close an empty one.
    """
    if thinking is None:
        return np.zeros(len(places), bool)
    tokens = np.asarray(trace.prompt_ids + trace.output_ids, np.int64)
    markers = np.flatnonzero((tokens == thinking.start_id) | (tokens == thinking.end_id))
    if markers.size == 0:
        return np.zeros(len(places), bool)
    last = np.searchsorted(markers, np.asarray(places)) - 1
    opened = tokens[markers[np.maximum(last, 0)]] == thinking.start_id
    return np.asarray((last >= 0) & opened)
