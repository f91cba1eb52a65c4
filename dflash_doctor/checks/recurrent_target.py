"""The target keeps a running state that must be rolled back when drafts are refused

## What it checks

Whether the target has linear-attention or state-space layers.

## Why it matters

Attention forgets refused tokens by itself; a running state does not. Where an engine does not roll it back,
greedy output drifts into loops, and acceptance is *inflated* by the broken verifier: a recorded gain of
1.28 became 0.86 when it was put right (vllm-project/vllm#39273, Pushkinist/rMLX#436). Speculation may also
switch prefix caching off (vllm-project/vllm#57032).

## Example

    DF130 the target keeps a running state
      seen:     linear_attention among its layer types

## What to do

Run `dflash-doctor diagnose`: its losslessness check is the proof. Trust no earlier speed-up on such a
target.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import pair_view
from dflash_doctor.records import Finding


def judge(case: Case) -> Outcome:
    """Point at hybrid targets."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    target = view.target_config
    if target is None:
        return skipped("not checked: the target's config could not be read")
    if not target.is_recurrent:
        return settled([], compared=["the target has attention layers only"])
    kinds = sorted(set(target.layer_types or ()) - {"full_attention", "sliding_attention"})
    finding = Finding(
        code="DF130",
        severity="info",
        message="the target keeps a running state that must be rolled back when drafts are refused",
        observed=f"{', '.join(kinds) or target.model_type} among its layers",
        expected="losslessness proven on the engine that serves",
        remedy="run dflash-doctor diagnose; compare cached tokens with speculation on and off",
        where=view.in_target("layer_types"),
        causes=("recurrent-state-not-rolled-back", "prefix-cache-disabled-by-speculation"),
    )
    return settled([finding], compared=[])
