"""Packs single requests for the sample browser: plain lists, one text table, gzip, base64."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from typing import Any

import msgspec

from dflash_doctor.evidence import Divergence, Evidence, RequestTrace, VerifyStep
from dflash_doctor.metrics.divergence import kind_of
from dflash_doctor.records import CheckRecord
from dflash_doctor.reports.wording import visible

PROMPT_TAIL_TOKENS = 64
"""The end of a prompt is what a reader needs to see; all of it is in the trace file."""


def pack_samples(evidence: Evidence, checks: tuple[CheckRecord, ...]) -> str:
    """Base64 of the gzipped samples; empty when the speculative arm has no requests.

    Token texts have everything invisible written out, so that no text can disturb the page.
    """
    generation = evidence.speculative
    if generation is None or not generation.requests:
        return ""
    margin = evidence.noise.tie_margin if evidence.noise is not None else None
    divergences = {item.prompt_id: item for item in evidence.divergences or ()}
    void = _void_samples(checks)
    document = {
        "texts": {str(token): visible(text) for token, text in evidence.token_texts.items()},
        "samples": [
            _sample(trace, divergences.get(trace.prompt_id), margin, void) for trace in generation.requests
        ],
    }
    raw = msgspec.json.encode(document)
    # No time stamp, so that the same run gives the same bytes.
    return base64.b64encode(gzip.compress(raw, mtime=0)).decode("ascii")


def _sample(
    trace: RequestTrace, divergence: Divergence | None, margin: float | None, void: Mapping[str, str]
) -> dict[str, Any]:
    sample: dict[str, Any] = {
        "id": visible(trace.prompt_id),
        "category": visible(trace.category),
        "prompt": trace.prompt_ids[-PROMPT_TAIL_TOKENS:],
        "promptLength": len(trace.prompt_ids),
        "output": trace.output_ids,
        "finish": visible(trace.finish_reason or ""),
        "steps": [_step(step) for step in trace.steps or ()],
    }
    if divergence is not None:
        sample["divergence"] = {
            "index": divergence.index,
            "target": divergence.target_id,
            "speculative": divergence.speculative_id,
            "targetLnp": divergence.target_logprob,
            "speculativeLnp": divergence.speculative_logprob,
            "source": divergence.source,
            "kind": kind_of(divergence, tie_margin=margin),
        }
    if trace.prompt_id in void:
        sample["void"] = visible(void[trace.prompt_id])
    return sample


def _step(step: VerifyStep) -> list[Any]:
    return [
        step.position,
        step.num_accepted,
        step.num_drafted,
        step.chosen_id,
        step.rejected_logprob,
        step.rejected_rank,
        step.chosen_logprob,
        *(step.draft_ids or ()),
    ]


def _void_samples(checks: tuple[CheckRecord, ...]) -> dict[str, str]:
    """Samples that a finding of DF802 names, with its words."""
    return {
        finding.where.prompt_id: finding.observed
        for check in checks
        if check.code == "DF802"
        for finding in check.findings
        if finding.where.prompt_id is not None
    }
