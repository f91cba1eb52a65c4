"""The drafter's feature projection does not fit the number of taps and the target's width

## What it checks

`fc.weight` takes the features of all taps side by side: its input width must be the number of taps times
the target's hidden size, its output width the drafter's hidden size.

## Why it matters

It is the surest sign of a drafter made for another target, or of a tap list that lost an entry. Engines
report it as a matrix shape error after the weights are loaded, some only at the first request.

## Example

    DF106 the feature projection does not fit
      seen:     fc.weight takes 20,480 features; 4 taps of width 4,096 give 16,384
      expected: 5 taps, or another target

## What to do

Compare the tap list with the original release; check that the drafter was made for this target.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding

_NAMES = ("fc.weight", "encoder.fc.weight")


def judge(case: Case) -> Outcome:
    """Compare the projection's shape with taps and widths."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    fc = next((item for name in _NAMES if (item := view.draft.tensor(name)) is not None), None)
    if fc is None:
        return skipped("not checked: no fc.weight among the drafter's tensors")
    if len(fc.shape) != 2 or not fc.dtype.startswith(("BF", "F")):
        return skipped(f"not checked: fc.weight is stored as {fc.dtype} {list(fc.shape)}")
    outputs, inputs = fc.shape
    findings, compared, unchecked = [], [], []
    width = _target_width(view)
    taps = view.config.trained_taps
    if taps is None or width is None:
        unchecked.append("taps or the target's hidden size are not known")
    elif len(taps) * width == inputs:
        compared.append(f"{len(taps)} taps of width {width:,} fit fc.weight")
    else:
        fits = (
            f"{inputs // width} taps" if inputs % width == 0 else f"a target of width {inputs / len(taps):g}"
        )
        findings.append(
            _finding(
                view,
                f"fc.weight takes {inputs:,} features; {len(taps)} taps of width {width:,} "
                f"give {len(taps) * width:,}",
                fits,
            )
        )
    if view.config.hidden_size is not None and outputs != view.config.hidden_size:
        findings.append(
            _finding(
                view,
                f"fc.weight gives {outputs:,} features; hidden_size is {view.config.hidden_size:,}",
                f"{view.config.hidden_size:,} features",
            )
        )
    return settled(findings, compared=compared, unchecked=unchecked)


def _target_width(view: PairView) -> int | None:
    stated = view.config.target_hidden_size
    return stated or (view.target_config.hidden_size if view.target_config is not None else None)


def _finding(view: PairView, observed: str, expected: str) -> Finding:
    return Finding(
        code="DF106",
        severity="error",
        message="the feature projection does not fit",
        observed=observed,
        expected=expected,
        remedy="compare the tap list with the original release; check that the drafter is for this target",
        where=view.in_draft("nested_target_layer_ids"),
        causes=("wrong-drafter-for-target", "target-layer-ids-out-of-range"),
    )
