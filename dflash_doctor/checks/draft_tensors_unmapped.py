"""The drafter's file lacks tensors that its family has, or holds some that nobody loads

## What it checks

The names and the number of layers in the tensor headers against what the drafter's family stores: every
projection and norm of every layer, the feature projection and its norm. Quantised modules count whatever
their parts are called.

## Why it matters

Engines fill what is missing with whatever memory holds, or with ones, and say nothing: on the bundled pair
a missing output projection takes the acceptance length from 4.30 to 1.00, missing query and key norms to
3.03. Tensors that nobody loads mean the file was made for other code (sgl-project/sglang#35797,
vllm-project/vllm#37667).

## Example

    DF123 tensors are missing from the drafter's file
      seen:     2 of 25 modules, first layers.1.mlp.down_proj

## What to do

Download the drafter again, or export it again with all its tensors.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.contract.pair import TensorCensus
from dflash_doctor.records import Finding


def judge(case: Case) -> Outcome:
    """Judge the census of the drafter's tensors."""
    view = pair_view(case)
    if isinstance(view, Outcome):
        return view
    census = view.pair.census
    if view.draft.tensors is None:
        return skipped("not checked: the drafter's tensors could not be read")
    if census is None:
        return skipped(f"not checked: which tensors a {view.config.dialect} drafter has is not known here")
    findings = []
    if census.num_layers is not None and view.config.num_layers is not None:
        findings += _layers(view, census)
    if census.missing and not findings:
        findings.append(
            _finding(
                view,
                "tensors are missing from the drafter's file",
                f"{len(census.missing)} of {census.num_expected} modules, first {census.missing[0]}",
                "every projection and norm of every layer",
            )
        )
    if census.unknown and not findings:
        findings.append(
            _finding(
                view,
                "the drafter's file holds tensors that its family does not have",
                f"{len(census.unknown)} modules, first {census.unknown[0]}",
                f"only the modules of a {view.config.dialect} drafter",
            )
        )
    findings += [
        _finding(
            view, "a tensor's shape contradicts the config", f"{name}: {seen}", f"{wanted} by the config"
        )
        for name, seen, wanted in census.misshapen[:5]
    ]
    return settled(
        findings, compared=[f"{census.num_expected} modules of {census.num_layers or 0} layers are there"]
    )


def _layers(view: PairView, census: TensorCensus) -> list[Finding]:
    if census.num_layers == view.config.num_layers:
        return []
    return [
        _finding(
            view,
            "config and file have different numbers of drafter layers",
            f"num_hidden_layers {view.config.num_layers}; the file holds {census.num_layers} layers",
            "the same number",
            field="num_layers",
        )
    ]


def _finding(
    view: PairView, message: str, observed: str, expected: str, *, field: str = "architecture"
) -> Finding:
    return Finding(
        code="DF123",
        severity="error",
        message=message,
        observed=observed,
        expected=expected,
        remedy="download the drafter again, or export it again with all its tensors",
        where=view.in_draft(field),
        causes=("draft-weights-not-loaded",),
    )
