"""A reduced draft vocabulary without a usable table to the target's ids

## What it checks

A drafter with fewer output tokens than the target has needs the table `d2t`: one offset per draft token,
target id = draft id + d2t[draft id]. The check reads the table (it is small) and asks whether it is there,
has the right length, is not all zero, leads to ids inside the target's vocabulary, to a different one for
every draft token, and agrees with `t2d`.

## Why it matters

Training measures look fine, for they use the same wrong table; served acceptance collapses. Exporters have
left the table out, written the first N ids, or made a new one when a drafter was fine-tuned
(NVIDIA-NeMo/Automodel#2447, sgl-project/SpecForge#534).

## Example

    DF108 the drafter has a reduced vocabulary and no table to the target's ids
      seen:     draft_vocab_size 32,000, target vocabulary 151,936, no tensor d2t
      do:       export the drafter again with the table of its training run

## What to do

Export again with the table that the drafter was trained with. A table cannot be rebuilt from the weights.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.contract.pair import VocabMap
from dflash_doctor.records import Finding

PADDING = 1024
"""Vocabulary sizes this close differ by padding: engines round up to multiples of 64 to 512."""


def judge(case: Case) -> Outcome:
    """Judge the table of a reduced vocabulary."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    said = view.config.draft_vocab_size
    target = view.target_config.vocab_size if view.target_config is not None else None
    maps = {item.name: item for item in view.pair.vocab_maps}
    table = maps.get("d2t")
    if said is None and table is None:
        return settled([], compared=["the drafter says the target's own tokens: no table needed"])
    if target is None:
        return skipped("not checked: the size of the target's vocabulary is not known")
    size = said if said is not None else table.length if table is not None else 0
    if table is None:
        if size >= target or target - size < PADDING:
            return settled([], compared=[f"draft vocabulary {size:,} is the target's {target:,}"])
        if view.draft.tensors is None:
            return skipped("not checked: the drafter's tensors could not be read")
        return settled([_missing(view, size, target)], compared=[])
    findings = [
        _finding(view, observed, expected) for observed, expected in _faults(table, maps, size, target)
    ]
    return settled(findings, compared=[f"d2t leads {size:,} draft tokens to as many target ids"])


def _faults(table: VocabMap, maps: dict[str, VocabMap], size: int, target: int) -> list[tuple[str, str]]:
    faults = []
    if table.length != size:
        faults.append((f"d2t has {table.length:,} entries", f"{size:,}, the draft vocabulary"))
    if table.all_zero and target - size >= PADDING:
        faults.append(
            (
                "d2t is all zero: every draft token would stand for the target token of the same id",
                "offsets to the tokens the drafter was trained on",
            )
        )
    if table.lowest_target is not None and (table.lowest_target < 0 or (table.highest_target or 0) >= target):
        faults.append(
            (f"d2t leads to ids {table.lowest_target:,} to {table.highest_target:,}", f"0 to {target - 1:,}")
        )
    if table.num_distinct is not None and table.num_distinct < table.length:
        faults.append(
            (
                f"d2t leads {table.length:,} draft tokens to {table.num_distinct:,} target ids",
                "a different target id for each",
            )
        )
    back = maps.get("t2d")
    if back is not None and back.agrees_with_other is False:
        faults.append(("t2d marks other target ids than d2t leads to", "the same ids in both"))
    if back is not None and back.length != target and abs(target - back.length) >= PADDING:
        faults.append((f"t2d has {back.length:,} entries", f"{target:,}, the target's vocabulary"))
    return faults


def _missing(view: PairView, size: int, target: int) -> Finding:
    return Finding(
        code="DF108",
        severity="error",
        message="the drafter has a reduced vocabulary and no table to the target's ids",
        observed=f"draft_vocab_size {size:,}, target vocabulary {target:,}, no tensor d2t",
        expected=f"a tensor d2t with {size:,} entries",
        remedy="export the drafter again with the table of its training run",
        where=view.in_draft("draft_vocab_size"),
        causes=("draft-vocab-map-broken",),
        numbers={"draft_vocab_size": size, "target_vocab_size": target},
    )


def _finding(view: PairView, observed: str, expected: str) -> Finding:
    return Finding(
        code="DF108",
        severity="error",
        message="the table from draft tokens to the target's ids is broken",
        observed=observed,
        expected=expected,
        remedy="export the drafter again with the table of its training run",
        where=view.in_draft("draft_vocab_size"),
        causes=("draft-vocab-map-broken",),
    )
