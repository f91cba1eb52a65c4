"""The speculation method is not the one that the drafter was made for

## What it checks

The method that is asked for (`--method`, or `speculative_config.method`) against the family that the
drafter's files show: a block drafter needs `dflash`, DSpark's relatives `dspark`, an EAGLE-3 head `eagle3`,
a plain language model `draft_model`; n-gram speculation needs no drafter at all. Also: the same folder
given as target and as drafter.

## Why it matters

Some engines refuse the combination with a shape error. Others run: a DSpark drafter under `dflash` is
shifted by one position, and under 1 percent of its drafts is accepted (vllm-project/vllm#49614).

## Example

    DF132 the method eagle3 does not fit a z-lab drafter
      seen:     architectures DFlashDraftModel
      do:       --method dflash

## What to do

Give the method that fits the drafter's family.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding

_METHODS = {
    "dspark": ("dspark",),
    "speculators-dspark": ("dspark",),
    "eagle3": ("eagle3", "eagle"),
    "speculators-eagle3": ("eagle3", "eagle"),
    "draft-model": ("draft_model",),
}
_OF_BLOCKS = ("dflash",)
_KNOWN = ("dflash", "dspark", "eagle", "eagle3", "draft_model", "mtp", "ngram", "suffix", "medusa")
"""Methods whose drafters are known here; of another one nothing is said."""


def judge(case: Case) -> Outcome:
    """Compare method and family."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    method = str(view.speculative("method") or view.contract.method).lower()
    findings = [_same_folder(view)] if view.draft.folder == view.target.folder else []
    fitting = _METHODS.get(view.config.dialect, _OF_BLOCKS)
    if method in fitting:
        return settled(findings, compared=[f"method {method} fits a {view.config.dialect} drafter"])
    if method not in _KNOWN:
        return settled(findings, compared=[], unchecked=[f"what drafters the method {method} takes"])
    finding = Finding(
        code="DF132",
        severity="error",
        message=f"the method {method} does not fit a {view.config.dialect} drafter",
        observed=f"architectures {view.config.architecture or 'not stated'}",
        expected=f"method {' or '.join(fitting)}",
        remedy=f"serve it with the method {fitting[0]}",
        edit=f"--method {fitting[0]}",
        where=view.in_draft("architecture"),
        causes=("block-layout-anchor",) if view.config.is_block_drafter else ("wrong-drafter-for-target",),
    )
    return settled([*findings, finding], compared=[])


def _same_folder(view: PairView) -> Finding:
    return Finding(
        code="DF132",
        severity="error",
        message="target and drafter are the same folder",
        observed=view.draft.folder or "",
        expected="a drafter made for the target",
        remedy="name the drafter's folder with --draft",
        where=view.in_draft("architecture"),
        causes=("wrong-drafter-for-target",),
    )
