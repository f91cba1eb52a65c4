"""The drafter would be built under the target's quantisation

## What it checks

Target and drafter stored in different ways, and no argument that says how the drafter is stored. An
explicit `quantization` of the target is the one that engines have passed on to the drafter.

## Why it matters

Shapes agree, formats do not, and the drafter's logits are garbage (vllm-project/vllm#49133, #53116).

## Example

    DF124 the target's quantisation may be applied to the unquantised drafter
      seen:     quantization=modelopt_fp4 (engine argument); the drafter's weights are bfloat16

## What to do

Leave `quantization` to the checkpoints' own configs, or give the drafter its own argument.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding

_INHERITING = ("dspark", "speculators-dspark")
"""Families whose drafter vLLM builds from the target's own config (DeepSeek-V4)."""


def judge(case: Case) -> Outcome:
    """Compare how the two are stored and what the arguments say."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    target = view.target_config
    if target is None:
        return skipped("not checked: the target's config could not be read")
    own = view.config.quantization
    asked, for_draft = view.argument("quantization"), _for_draft(view)
    if asked is None and target.quantization is None:
        return settled([], compared=["the target is not quantised"])
    if for_draft is not None:
        return settled([], compared=[f"the drafter's quantisation is given: {for_draft}"])
    method = target.quantization.method if target.quantization is not None else str(asked)
    if own is not None and own.method == method:
        return settled([], compared=[f"target and drafter are both {method}"])
    risky = asked is not None or view.config.dialect in _INHERITING
    stored = own.method if own is not None else f"{view.config.dtype or 'plain'} without quantisation"
    if not risky:
        return settled([], compared=[f"target {method}, drafter {stored}, each by its own config"])
    finding = Finding(
        code="DF124",
        severity="warning",
        message="the target's quantisation may be applied to the drafter",
        observed=(f"quantization={asked} (engine argument)" if asked is not None else f"target {method}")
        + f"; the drafter is {stored}",
        expected="the drafter built as it is stored",
        remedy="leave out the argument, or give the drafter its own: speculative_config.quantization",
        where=view.in_draft("dtype"),
        causes=("draft-quantization-inherited",),
    )
    return settled([finding], compared=[])


def _for_draft(view: PairView) -> str | None:
    value = view.speculative("quantization") or view.argument("speculative_draft_model_quantization")
    return str(value) if value is not None else None
