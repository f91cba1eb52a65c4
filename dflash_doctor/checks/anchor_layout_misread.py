"""The engine takes the anchor slot for a prediction where training did not, or the other way round

## What it checks

Slot 0 of a block is the last committed token. In DFlash it predicts nothing, in DSpark it predicts the next
token. `sample_from_anchor` says which; vLLM rejects it for DFlash inside `dflash_config` and does not see
it at top level.

## Why it matters

Every draft is shifted by one: under 1 percent is accepted while the author's own evaluation is normal
(vllm-project/vllm#49614). Checkpoints of that kind have been published without any key that says so.

## Example

    DF119 the drafter predicts from the anchor slot and vllm does not
      seen:     sample_from_anchor true at top level; vllm drafts 7 tokens of a block of 8

## What to do

Serve it with the method that has this layout (`dspark`), or with an engine that reads the key.
"""

from __future__ import annotations

import re

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding

_ANCHOR_NAMES = re.compile(r"dspark|deepspec|_block\d+", re.IGNORECASE)
"""Families that predict from the anchor and have been published without the key."""


def judge(case: Case) -> Outcome:
    """Compare how many tokens a block yields."""
    view = pair_view(case)
    if isinstance(view, Outcome):
        return view
    served = view.served
    if served is None or served.num_draft_tokens is None:
        return skipped(f"not checked: how {view.engine} lays out a block (no block_size)")
    stated = view.config.samples_from_anchor
    if stated and "dspark" not in view.config.dialect:
        block = view.config.block_size or 0
        if served.refuses is not None or served.num_draft_tokens < block:
            return settled([_misread(view)], compared=[])
    trained = view.trained.num_draft_tokens
    if trained is not None and trained != served.num_draft_tokens:
        return settled([_misread(view)], compared=[])
    findings = []
    if stated is None and view.config.dialect == "z-lab" and _ANCHOR_NAMES.search(view.draft.name):
        findings.append(_suspected(view))
    return settled(
        findings, compared=[f"{served.num_draft_tokens} tokens are drafted from a block, as trained"]
    )


def _misread(view: PairView) -> Finding:
    served = view.served
    assert served is not None, "the caller looked"
    field = "nested_sample_from_anchor" if view.config.nested_sample_from_anchor else "sample_from_anchor"
    block = view.config.block_size
    seen = served.refuses or f"{view.engine} drafts {served.num_draft_tokens} tokens of a block of {block}"
    return Finding(
        code="DF119",
        severity="error",
        message=f"the drafter predicts from the anchor slot and {view.engine} does not",
        observed=f"sample_from_anchor true; {view.engine}: {seen}",
        expected=f"{view.config.block_size} tokens, the first from the anchor",
        remedy="serve with the method that has this layout (dspark), or an engine that reads the key",
        where=view.in_draft(field),
        causes=("block-layout-anchor",),
    )


def _suspected(view: PairView) -> Finding:
    return Finding(
        code="DF119",
        severity="warning",
        message="drafters of this name predict from the anchor slot, and the config does not say so",
        observed=f"{view.draft.name}; no sample_from_anchor",
        expected="sample_from_anchor in the config, true or false",
        remedy="ask the release; dflash-doctor diagnose compares drafts with the text shifted by one",
        where=view.in_draft("block_size"),
        causes=("block-layout-anchor",),
    )
