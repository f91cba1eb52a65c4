"""The drafter brings an output head of its own and the engine uses the target's

## What it checks

Whether an `lm_head` in the drafter's file is used by the serving engine. A head for a reduced vocabulary
must never be replaced; neither may one that was trained apart from the target's.

## Why it matters

Served with the target's head, such a drafter goes from 25 percent to 1.7 (vllm-project/vllm-ascend#11374,
fixed once and lost again). SGLang and Transformers always borrow the target's head for DFlash drafters.

## Example

    DF110 sglang would not use the drafter's own output head
      seen:     lm_head.weight BF16 [32000, 4096] in the drafter's file; sglang takes the target's

## What to do

Serve with an engine that keeps the drafter's head, or take a drafter that shares the target's.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import pair_view
from dflash_doctor.records import Finding


def judge(case: Case) -> Outcome:
    """Compare what the file brings with what the engine uses."""
    view = pair_view(case)
    if isinstance(view, Outcome):
        return view
    if view.draft.tensors is None:
        return skipped("not checked: the drafter's tensors could not be read")
    head = view.draft.tensor("lm_head.weight")
    if head is None:
        return settled([], compared=["the drafter brings no head"])
    if view.served is None:
        return skipped(f"not checked: whether {view.engine} keeps a drafter's own head")
    if view.served.keeps_own_head:
        return settled([], compared=[f"{view.engine} keeps the drafter's own head"])
    target = view.target_config.vocab_size if view.target_config is not None else None
    reduced = target is not None and head.shape and head.shape[0] < target
    finding = Finding(
        code="DF110",
        severity="error" if reduced else "warning",
        message=f"{view.engine} would not use the drafter's own output head",
        observed=f"lm_head.weight {head.dtype} {list(head.shape)} in the drafter's file; "
        f"{view.engine} takes the target's",
        expected="the drafter's own head",
        remedy="serve with an engine that keeps the drafter's head (vllm), or take a drafter without one",
        where=view.in_draft("draft_vocab_size"),
        causes=("draft-head-overwritten",),
    )
    return settled([finding], compared=[])
