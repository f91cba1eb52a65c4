"""The drafter's candidate selector cannot read the target's quantised head

## What it checks

A DFlash2 drafter picks candidates with the target's output head, outside the usual projection. Where the
target's quantisation covers `lm_head`, some engine versions refuse, at the first request or in the
profiling run.

## Why it matters

The server starts to load, takes its minutes, and crashes. Fixed in SGLang (sgl-project/sglang#35534),
debated in vLLM (vllm-project/vllm#52816).

## Example

    DF112 the target's head is quantised and the drafter's selector needs it
      seen:     selector_rank 256 in the drafter's config; awq covers lm_head in the target's

## What to do

Take an engine version that projects through the quantised head, or a target whose head is left in bf16.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import pair_view
from dflash_doctor.records import Finding


def judge(case: Case) -> Outcome:
    """Selector on the one side, quantised head on the other."""
    view = pair_view(case)
    if isinstance(view, Outcome):
        return view
    if view.config.selector_rank is None:
        return settled([], compared=["the drafter has no candidate selector"])
    if view.target_config is None:
        return skipped("not checked: the target's config could not be read")
    scheme = view.target_config.quantization
    if scheme is None or not scheme.covers_head:
        return settled([], compared=["the target's head is not quantised"])
    finding = Finding(
        code="DF112",
        severity="warning",
        message="the target's head is quantised and the drafter's selector needs it",
        observed=f"selector_rank {view.config.selector_rank} in the drafter's config; {scheme.method} covers "
        "lm_head in the target's",
        expected="a head in bf16, or an engine version that reads a quantised one",
        remedy="take a newer engine version, or a target whose head is left in bf16",
        where=view.in_draft("selector_rank"),
        causes=("draft-head-quantized-unsupported",),
    )
    return settled([finding], compared=[])
