"""A DFlash2 drafter would be run as DFlash, or the other way round

## What it checks

DFlash2 has a convolution in every layer and a candidate selector. The check compares the tensors in the
file, the keys in the config and the class that the config asks for.

## Why it matters

Run as DFlash the extra tensors raise an "unexpected key", or worse, are loaded and never used
(vllm-project/vllm#53612, raullenchai/Rapid-MLX#2195). A drafter loaded through a generic auto class becomes
a plain Qwen3 and loses them too.

## Example

    DF121 the file holds DFlash2 tensors and the config asks for DFlashDraftModel
      seen:     11 tensors of convolution and selector

## What to do

Restore `architectures: ["DFlash2DraftModel"]` and the DFlash2 keys from the original release.
"""

from __future__ import annotations

import re

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding

_TENSORS = re.compile(r"(attention_conv|mlp_conv|candidate_selector)\.")
_KEYS = ("conv_kernel_size", "selector_rank")


def judge(case: Case) -> Outcome:
    """Tensors, keys and class must say the same."""
    view = pair_view(case)
    if isinstance(view, Outcome):
        return view
    if view.draft.tensors is None:
        return skipped("not checked: the drafter's tensors could not be read")
    count = sum(_TENSORS.search(item.name) is not None for item in view.draft.tensors)
    asked = "DFlash2" in (view.config.architecture or "") or view.config.dialect == "speculators-dflash2"
    keyed = [name for name in _KEYS if getattr(view.config, name) is not None]
    if count and not asked:
        finding = _finding(
            view,
            "the file holds DFlash2 tensors and the config asks for "
            + (view.config.architecture or "no class"),
            f"{count} tensors of convolution and selector",
        )
        return settled([finding], compared=[])
    if not count and (asked or keyed):
        finding = _finding(
            view,
            "the config asks for DFlash2 and the file has none of its tensors",
            f"{', '.join(keyed) or view.config.architecture}; no convolution, no selector",
        )
        return settled([finding], compared=[])
    kind = "DFlash2" if count else "DFlash"
    return settled([], compared=[f"class, keys and tensors say {kind}"])


def _finding(view: PairView, message: str, observed: str) -> Finding:
    return Finding(
        code="DF121",
        severity="error",
        message=message,
        observed=observed,
        expected="architectures, keys and tensors of one kind",
        remedy="restore config.json (or the weights) from the original release",
        where=view.in_draft("architecture"),
        causes=("dflash2-as-dflash1",),
    )
