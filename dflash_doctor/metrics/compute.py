"""Every metric of a run, from its evidence."""

from __future__ import annotations

from dflash_doctor.evidence import Evidence
from dflash_doctor.metrics.acceptance import position_metrics
from dflash_doctor.metrics.divergence import lossless_metrics
from dflash_doctor.metrics.experiments import experiment_metrics
from dflash_doctor.metrics.rejections import rejection_metrics
from dflash_doctor.metrics.slices import (
    acceptance_by_context,
    acceptance_by_segment,
    acceptance_of_requests,
    by_category,
)
from dflash_doctor.metrics.steps import step_table
from dflash_doctor.metrics.timing import timing_metrics
from dflash_doctor.records import Metrics


def compute_metrics(evidence: Evidence) -> Metrics:
    """What can be counted from this evidence; what cannot is absent, never zero."""
    lossless, timing = lossless_metrics(evidence), timing_metrics(evidence)
    experiments = experiment_metrics(evidence)
    if evidence.speculative is None or not evidence.speculative.requests:
        return Metrics(lossless=lossless, timing=timing, experiments=experiments)
    requests = evidence.speculative.requests
    categories = by_category(requests)
    table = step_table(requests, thinking=evidence.thinking)
    has_steps = len(table) > 0
    return Metrics(
        overall=acceptance_of_requests(requests, label="overall"),
        by_category={
            name: acceptance_of_requests(members, label=name) for name, members in categories.items()
        },
        by_position=position_metrics(table),
        by_context=acceptance_by_context(table),
        by_segment=acceptance_by_segment(table) if evidence.thinking is not None else {},
        rejections=rejection_metrics(requests, label="overall", token_texts=evidence.token_texts)
        if has_steps
        else None,
        rejections_by_category={
            name: rejection_metrics(members, label=name, token_texts=evidence.token_texts)
            for name, members in categories.items()
        }
        if has_steps
        else {},
        lossless=lossless,
        timing=timing,
        experiments=experiments,
    )
