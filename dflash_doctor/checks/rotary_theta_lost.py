"""The base of the rotary frequencies is lost, doubled or not the trained one

## What it checks

`rope_theta` at top level and in `rope_parameters` (where Transformers 5 puts it), and what the serving
engine takes where both are silent: 10,000 nearly everywhere, 1,000,000 for speculators files in vLLM. The
drafter's base may differ from the target's; what counts is the one it was trained with.

## Why it matters

A lost base falls back without a word. On the bundled pair a base of 1,000,000 instead of 10,000 takes the
acceptance length from 4.30 to 1.24. Drafters that were trained at 10,000 do better there
(sgl-project/SpecForge#702), so "match the target" is the wrong rule.

## Example

    DF115 the drafter's config names no rope_theta, and vllm takes another than training
      seen:     vllm 1,000,000 (the default of vllm); training 10,000

## What to do

Write the trained base into the config, at top level and in `rope_parameters`.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding


def judge(case: Case) -> Outcome:
    """Compare the base in force with the trained one, and the two places with each other."""
    view = pair_view(case)
    if isinstance(view, Outcome):
        return view
    served, trained = view.served, view.trained
    if served is None or trained.rope_theta is None:
        return skipped(f"not checked: which base {view.engine} takes")
    top, inner = view.config.rope_theta, view.config.nested_rope_theta
    findings = []
    if top is not None and inner is not None and top != inner:
        findings.append(_two_places(view, top, inner))
    if served.rope_theta != trained.rope_theta:
        findings.append(_lost(view))
    elif top is None and inner is None:
        findings.append(_silent(view))
    elif (top is None) != (inner is None):
        findings.append(_one_place(view, inner is None))
    target = view.target_config.theta if view.target_config is not None else None
    if target is not None and target != served.rope_theta:
        findings.append(_other_than_target(view, target))
    return settled(findings, compared=[f"base {served.rope_theta:,.0f} ({served.theta_from})"])


def _two_places(view: PairView, top: float, inner: float) -> Finding:
    return Finding(
        code="DF115",
        severity="warning",
        message="rope_theta stands in two places with two values",
        observed=f"rope_theta {top:,.0f}; {view.config.sources['nested_rope_theta']} {inner:,.0f} (wins)",
        expected="one value",
        remedy="write the trained value into both; only training knows which it is",
        where=view.in_draft("rope_theta"),
        causes=("rotary-theta",),
    )


def _lost(view: PairView) -> Finding:
    assert view.served is not None, "the caller looked"
    return Finding(
        code="DF115",
        severity="error",
        message=f"the drafter's config names no rope_theta, and {view.engine} takes another than training",
        observed=f"{view.engine} {view.served.rope_theta:,.0f} ({view.served.theta_from}); training "
        f"{view.trained.rope_theta:,.0f} ({view.trained.theta_from})",
        expected="the trained base, stated",
        remedy="write the trained rope_theta into the drafter's config",
        edit=f"{view.draft.config_file}: rope_theta = {view.trained.rope_theta:g}",
        where=view.in_draft("rope_theta"),
        causes=("rotary-theta",),
    )


def _silent(view: PairView) -> Finding:
    return Finding(
        code="DF115",
        severity="info",
        message="the drafter's config names no rope_theta",
        observed="; ".join(f"{item.reader} takes {item.rope_theta:,.0f}" for item in view.pair.readings[:3]),
        expected="the trained base, stated",
        remedy="write the trained rope_theta into the drafter's config",
        where=view.in_draft("rope_theta"),
    )


def _one_place(view: PairView, at_top: bool) -> Finding:
    here, there = ("rope_theta", "rope_parameters.rope_theta")[:: 1 if at_top else -1]
    older = "Transformers 4" if not at_top else "code that reads only rope_parameters"
    return Finding(
        code="DF115",
        severity="info",
        message="rope_theta stands in one of its two places",
        observed=f"{here} is stated, {there} is not",
        expected="both, for readers of both generations",
        remedy=f"nothing for {view.engine}; {older} would fall back to 10,000",
        where=view.in_draft("rope_theta" if at_top else "nested_rope_theta"),
    )


def _other_than_target(view: PairView, target: float) -> Finding:
    assert view.served is not None, "the caller looked"
    return Finding(
        code="DF115",
        severity="info",
        message="drafter and target have different rotary bases",
        observed=f"drafter {view.served.rope_theta:,.0f}, target {target:,.0f}",
        expected="whatever the drafter was trained with",
        remedy="nothing, unless acceptance is poor: then compare both bases by experiment",
        where=view.in_draft("rope_theta"),
    )
