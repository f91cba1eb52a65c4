"""Cuts the traffic by category, by context length and by thinking segment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from dflash_doctor.evidence import RequestTrace
from dflash_doctor.metrics.acceptance import acceptance_of_counters, acceptance_of_steps
from dflash_doctor.metrics.steps import StepTable, step_table
from dflash_doctor.records import AcceptanceMetrics

FIRST_CONTEXT_EDGE = 128
"""Buckets are 0-127, 128-255, 256-511, ...: doubling, since context effects are about ratios."""


def by_category(requests: Sequence[RequestTrace]) -> dict[str, tuple[RequestTrace, ...]]:
    """Requests of each category, categories in order of appearance."""
    found: dict[str, list[RequestTrace]] = defaultdict(list)
    for trace in requests:
        found[trace.category].append(trace)
    return {name: tuple(members) for name, members in found.items()}


def acceptance_of_requests(requests: Sequence[RequestTrace], *, label: str) -> AcceptanceMetrics:
    """Acceptance of whole requests, from steps where the engine gave any, else from its counters."""
    if any(trace.steps for trace in requests):
        num_output_tokens = sum(len(trace.output_ids) for trace in requests)
        return acceptance_of_steps(step_table(requests), label=label, num_output_tokens=num_output_tokens)
    return acceptance_of_counters(requests, label=label)


def acceptance_by_context(table: StepTable) -> tuple[AcceptanceMetrics, ...]:
    """Acceptance in each bucket of the number of tokens before the draft; empty buckets are left out."""
    found = []
    low, high = 0, FIRST_CONTEXT_EDGE
    last = int(table.position.max(initial=-1))
    while low <= last:
        inside = (table.position >= low) & (table.position < high)
        if inside.any():
            found.append(acceptance_of_steps(table, label=f"{low}-{high - 1}", where=inside))
        low, high = high, 2 * high
    return tuple(found)


def acceptance_by_segment(table: StepTable) -> dict[str, AcceptanceMetrics]:
    """Acceptance inside (`thinking`) and outside (`answer`) the thinking block; only what occurs."""
    found = {}
    for label, inside in (("thinking", table.thinking), ("answer", np.logical_not(table.thinking))):
        if inside.any():
            found[label] = acceptance_of_steps(table, label=label, where=inside)
    return found
