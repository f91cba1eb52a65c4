"""The draft config names no target layers to read, so an engine guesses them

## What it checks

A drafter reads hidden states of certain target layers, its *taps*. The check looks for the list under every
key that the drafter's family uses, and tells what each engine would do without one.

## Why it matters

vLLM takes the target class's EAGLE-3 defaults, SGLang and z-lab's own code spread the taps over the target
by a formula. The formula is wrong for 14 of 20 published drafters in one survey (sgl-project/sglang#37475).
Where the guess has the right *number* of layers, everything loads and acceptance collapses in silence; an
EAGLE-3 head went from 0.751 to 0.036 at the first position (vllm-project/vllm#50170).

## Example

    DF103 the drafter's config names no target layers
      seen:     vllm would take the target class's own EAGLE-3 defaults; sglang would guess 1, 9, 17, 25, 33
      do:       write the list of the original release into dflash_config.target_layer_ids

## What to do

Take the list from the original checkpoint. Never let an engine guess it.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled
from dflash_doctor.checks.pair_view import PairView, listed, pair_view
from dflash_doctor.contract.pair import Reading
from dflash_doctor.records import Finding


def judge(case: Case) -> Outcome:
    """Look for a tap list."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    if view.trained.taps_from == "" and view.config.dialect == "draft-model":
        return settled([], compared=["a plain draft model reads no target layers"])
    taps = view.config.trained_taps
    if taps:
        return settled([], compared=[f"taps {listed(taps)} ({view.trained.taps_from or 'stated'})"])
    return settled([_finding(view)], compared=[])


def _finding(view: PairView) -> Finding:
    key = "eagle_aux_hidden_state_layer_ids" if not view.config.is_block_drafter else _key(view)
    return Finding(
        code="DF103",
        severity="error",
        message="the drafter's config names no target layers",
        observed="; ".join(_guess(item) for item in view.pair.readings if item.refuses is None)
        or "no key with a list of layers",
        expected=f"a list under {key}",
        remedy=f"write the list of the original release into {key}: only training knows it",
        where=view.in_draft("nested_target_layer_ids"),
        causes=("target-layer-ids-missing",),
    )


def _key(view: PairView) -> str:
    if view.config.dialect.startswith("speculators"):
        return "aux_hidden_state_layer_ids"
    return "dflash_config.target_layer_ids"


def _guess(reading: Reading) -> str:
    if reading.taps is None:
        return f"{reading.reader} would take {reading.taps_from or 'whatever its code defaults to'}"
    return f"{reading.reader} would guess {listed(reading.taps)}"
