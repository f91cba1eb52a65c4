"""The target's quantisation rotates the hidden states that the drafter reads

## What it checks

Signs of a rotation (Hadamard, QuaRot, SpinQuant) in the target's quantisation config.

## Why it matters

The target's own output is right, for the rotation is undone before its head. The drafter taps the states in
between and reads them in a basis that it never saw: exactly nothing is accepted, while the same
quantisation without rotation is fine (vllm-project/vllm-ascend#11978).

## Example

    DF125 the target's hidden states are rotated
      seen:     rotation=hadamard in quantization_config

## What to do

Take a quantisation without rotation, or an engine that un-rotates the tapped states.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import pair_view
from dflash_doctor.records import Finding, Where


def judge(case: Case) -> Outcome:
    """Look for a rotation in the target's quantisation."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    if view.target_config is None:
        return skipped("not checked: the target's config could not be read")
    scheme = view.target_config.quantization
    if scheme is None or scheme.rotation is None:
        return settled([], compared=["no rotation in the target's quantisation"])
    finding = Finding(
        code="DF125",
        severity="error" if view.config.is_block_drafter else "warning",
        message="the target's hidden states are rotated, and the drafter reads them",
        observed=f"{scheme.rotation} in the target's {scheme.field}",
        expected="hidden states in the basis that the drafter was trained on",
        remedy="take a quantisation without rotation, or an engine that un-rotates the tapped states",
        where=_place(view.target.config_file, view.target.lines, scheme.field),
        causes=("target-features-rotated",),
    )
    return settled([finding], compared=[])


def _place(file: str | None, lines: dict[str, int], field: str) -> Where:
    return Where(file=file, field=field, line=lines.get(field))
