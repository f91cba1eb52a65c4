"""What the page's templates print: a run record arranged for reading, every number still a number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dflash_doctor.evidence import EngineFacts, Evidence, requests_of
from dflash_doctor.metrics.degeneracy import void_reason
from dflash_doctor.metrics.divergence import kind_of
from dflash_doctor.records import AcceptanceMetrics, CheckRecord, Estimate, RejectionMetrics, RunRecord
from dflash_doctor.reports import plots, wording
from dflash_doctor.reports.curve import acceptance_curve
from dflash_doctor.reports.experiments_view import experiments_view, reference_rows
from dflash_doctor.reports.headline import STATIC_FAMILIES, findings_of, groups_of, headline
from dflash_doctor.reports.readings import COLUMNS, reading_table
from dflash_doctor.reports.samples import pack_samples

MAX_DIVERGENCES = 12
"""Rows of the table of divergences; the sample browser has all."""

MAX_CASES = 4
"""Samples in sight of which a finding says the same; the others are folded."""
MAX_PAIRS = 10
"""Rejected pairs in sight; the others are folded."""

FACT_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Engine": (
        "name", "version", "device", "dtype", "kv_cache_dtype", "runner", "runner_generation",
        "async_scheduling", "enforce_eager", "prefix_caching", "max_model_len", "max_num_seqs",
        "target_attention",
    ),
    "Drafter": (
        "method", "num_spec_tokens", "block_size", "mask_token_id", "draft_class", "draft_attention",
        "draft_layers_causal", "lm_head_shared", "embedding_shared", "draft_sample_method",
        "rejection_sample_method",
    ),
    "Hidden states taken from the target": (
        "num_target_layers", "target_layer_ids", "aux_hidden_state_layers",
    ),
}  # fmt: skip
"""Fields of `EngineFacts` in reading order; `live` and `lossy_settings` have places of their own."""


def page_view(record: RunRecord, evidence: Evidence | None) -> dict[str, Any]:
    """The context of the page's templates."""
    metrics = record.metrics
    overall = metrics.overall
    void = _void_samples(evidence)
    rows = [*metrics.by_category.values(), *metrics.by_segment.values(), *metrics.by_context]
    facts = record.engine
    experiments = metrics.experiments
    reference = experiments.reference if experiments is not None else None
    view: dict[str, Any] = {
        "record": record,
        "metrics": metrics,
        "overall": overall,
        "headline": headline(record),
        "finding_groups": groups_of(findings_of(record)),
        "max_cases": MAX_CASES,
        "verdict_words": wording.VERDICT_WORDS,
        "verdict_icons": _VERDICT_ICONS,
        "source_words": wording.SOURCE_WORDS,
        "names": wording.PLAIN_NAMES,
        "definitions": wording.DEFINITIONS,
        "check_counts": _check_counts(record),
        "checks_in_sight": [check for check in record.checks if not _is_folded(check)],
        "checks_folded": [check for check in record.checks if _is_folded(check)],
        "reading_columns": COLUMNS,
        "readings": reading_table(record),
        "experiments": experiments_view(experiments),
        "reference_rows": reference_rows(metrics),
        "reference_positions": {item.position: item for item in reference.by_position} if reference else {},
        "curve": acceptance_curve(
            metrics.by_position,
            num_in_block=_num_in_block(facts),
            reference=reference.by_position if reference is not None else (),
        ),
        "histogram": plots.histogram(overall.acceptance_histogram or ()) if overall else None,
        "scale": plots.scale_of(overall, rows, num_spec_tokens=facts.num_spec_tokens if facts else None),
        "interval_plot": plots.interval_plot,
        "categories": _worst_first(metrics.by_category.values()),
        "segments": list(metrics.by_segment.values()),
        "contexts": list(metrics.by_context),
        "rejected_categories": list(metrics.rejections_by_category.values()),
        "max_pairs": MAX_PAIRS,
        "rank_bar": _rank_bar(metrics.rejections),
        "lossless_bar": _lossless_bar(record),
        "divergences": _divergences(evidence),
        "max_divergences": MAX_DIVERGENCES,
        "all_numbers": list(_all_numbers(overall)),
        "fact_groups": _fact_groups(facts),
        "taps": _taps(facts),
        "live": list(_flat(facts.live)) if facts else [],
        "environment": list(_flat(record.environment)),
        "capture": evidence.speculative.capture if evidence and evidence.speculative else None,
        "missing": evidence.missing if evidence else (),
        "samples": pack_samples(evidence, void=void) if evidence is not None else "",
        "num_samples": len(requests_of(evidence.speculative)) if evidence else 0,
        "num_void": len(void),
        "has_evidence": evidence is not None,
    }
    return view


_VERDICT_ICONS = {"passed": "✓", "failed": "✕", "skipped": "–", "inconclusive": "?", "errored": "!"}
_RANK_STYLES = ("rank-1", "rank-2", "rank-3", "rank-4", "rank-5")


def _is_folded(check: CheckRecord) -> bool:
    """Static checks that passed are many and say that all is well."""
    return check.verdict == "passed" and check.code.startswith(STATIC_FAMILIES)


def _check_counts(record: RunRecord) -> list[tuple[str, int]]:
    """How many checks said what, the worst verdict first."""
    verdicts = [check.verdict for check in record.checks]
    order = ("failed", "errored", "inconclusive", "skipped", "passed")
    return [(verdict, verdicts.count(verdict)) for verdict in order if verdict in verdicts]


def _num_in_block(facts: EngineFacts | None) -> int | None:
    """Draft tokens that a block holds: one slot is the anchor."""
    return facts.block_size - 1 if facts is not None and facts.block_size else None


def _worst_first(rows: Iterable[AcceptanceMetrics]) -> list[AcceptanceMetrics]:
    """By acceptance length; rows without one come last."""

    def length(row: AcceptanceMetrics) -> float:
        value = row.mean_acceptance_length.value
        return math.inf if value is None else value

    return sorted(rows, key=length)


def _rank_bar(rejections: RejectionMetrics | None) -> dict[str, Any] | None:
    """The refused tokens by the target's rank of them."""
    if rejections is None or not any(rejections.rank_histogram.values()):
        return None
    parts = [
        plots.Part(style, label, count)
        for style, (label, count) in zip(_RANK_STYLES, rejections.rank_histogram.items(), strict=False)
    ]
    return {"svg": plots.share_bar(parts), "parts": parts, "total": sum(part.count for part in parts)}


def _lossless_bar(record: RunRecord) -> dict[str, Any] | None:
    lossless = record.metrics.lossless
    if lossless is None or not lossless.num_compared:
        return None
    parts = [
        plots.Part("good", "identical, token for token", lossless.num_identical),
        plots.Part("tie", "part at a numerical tie of the target", lossless.num_ties),
        plots.Part("unknown", "part, and the target's scores there are not known", lossless.num_untriaged),
        plots.Part("bad", "part where the target clearly prefers one side", lossless.num_faults),
    ]
    return {"svg": plots.share_bar(parts), "parts": parts}


def _divergences(evidence: Evidence | None) -> list[dict[str, Any]]:
    """First divergences, faults before unknown ones before ties."""
    if evidence is None:
        return []
    margin = evidence.noise.tie_margin if evidence.noise is not None else None
    order = ("fault", "untriaged", "tie")
    found = [
        {
            "prompt_id": item.prompt_id,
            "category": item.category,
            "index": item.index,
            "kind": kind_of(item, tie_margin=margin),
            "target": _token_text(evidence, item.target_id),
            "speculative": _token_text(evidence, item.speculative_id),
            "target_logprob": item.target_logprob,
            "speculative_logprob": item.speculative_logprob,
            "gap": item.gap,
            "source": item.source,
        }
        for item in evidence.divergences or ()
    ]
    return sorted(found, key=lambda row: order.index(row["kind"]))


def _token_text(evidence: Evidence, token: int | None) -> str | None:
    """`None` where the text had ended."""
    return None if token is None else evidence.token_texts.get(token, f"<{token}>")


def _void_samples(evidence: Evidence | None) -> dict[str, str]:
    """Why a sample is void, by prompt id."""
    found = {}
    for trace in requests_of(evidence.speculative) if evidence else ():
        reason = void_reason(trace.output_ids)
        if reason is not None:
            found[trace.prompt_id] = reason
    return found


def _all_numbers(overall: AcceptanceMetrics | None) -> Iterator[dict[str, Any]]:
    """Every metric of the whole run with its plain name, definition and source."""
    if overall is None:
        return
    lengths = {"mean_acceptance_length", "mean_acceptance_length_per_request", "mean_tokens_per_step"}
    for name in AcceptanceMetrics.__struct_fields__:
        value = getattr(overall, name)
        if isinstance(value, Estimate):
            shown = wording.interval(value) if name in lengths else wording.percent_interval(value)
            yield {"name": name, "value": shown, "source": wording.SOURCE_WORDS[value.source]}
        elif name.startswith("num_") or name == "rejected_draft_tokens":
            source = overall.draft_acceptance_rate.source if value is not None else "absent"
            is_text = name in ("num_requests", "num_output_tokens")
            yield {
                "name": name,
                "value": wording.number(value, 0),
                "source": "counted" if is_text else wording.SOURCE_WORDS[source],
            }


def _fact_groups(facts: EngineFacts | None) -> dict[str, list[tuple[str, Any]]]:
    if facts is None:
        return {}
    return {
        title: [(name, _or_no_data(getattr(facts, name))) for name in fields]
        for title, fields in FACT_GROUPS.items()
    }


def _or_no_data(value: Any) -> Any:
    return None if value == () else value


def _taps(facts: EngineFacts | None) -> list[tuple[int, bool]]:
    """Each layer of the target, and whether its output feeds the drafter; empty where that is not known."""
    if facts is None or not facts.num_target_layers or facts.target_layer_ids is None:
        return []
    return [(layer, layer in facts.target_layer_ids) for layer in range(min(facts.num_target_layers, 256))]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + str(name), value
