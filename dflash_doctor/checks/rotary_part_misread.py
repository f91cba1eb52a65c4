"""The engine rotates another part of each head than the drafter was trained with

## What it checks

`partial_rotary_factor` in the drafter's config, as the serving engine applies it, against what training
applied. z-lab's and speculators' drafters are Qwen3 layers, whose training code ignores the key and rotates
whole heads.

## Why it matters

The key is copied along from targets of the Qwen3.5 and Gemma kind. Training looks good; served, the first
position is accepted in 17-34 percent of the steps and every later one in exactly none
(vllm-project/speculators#613, deepseek-ai/DeepSpec#71).

## Example

    DF113 vllm would rotate a quarter of each head; training rotated all of it
      seen:     rope_parameters.partial_rotary_factor 0.25

## What to do

Set the factor to 1.0 in the drafter's config. If the training code did apply it, say so to its authors: the
config then needs no change and this warning no attention.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import pair_view
from dflash_doctor.records import Finding


def judge(case: Case) -> Outcome:
    """Compare the factor in force with the trained one."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    served, trained = view.served, view.trained.partial_rotary_factor
    if served is None:
        return skipped(f"not checked: whether {view.engine} applies partial_rotary_factor")
    if served.partial_rotary_factor == trained:
        return settled([], compared=[f"{100 * (trained or 1):g} % of each head is rotated, as the file says"])
    finding = Finding(
        code="DF113",
        severity="error",
        message=f"{view.engine} would rotate {100 * (served.partial_rotary_factor or 1):g} % of each head; "
        f"training rotated {100 * (trained or 1):g} %",
        observed=f"partial_rotary_factor {view.config.partial_rotary_factor:g} "
        f"({view.config.sources['partial_rotary_factor']})",
        expected=f"{trained:g}, or no such key",
        remedy=f"set partial_rotary_factor to {trained:g} in the drafter's config",
        edit=f"{view.draft.config_file}: {view.config.sources['partial_rotary_factor']} = {trained:g}",
        where=view.in_draft("partial_rotary_factor"),
        causes=("rotary-partial-factor",),
    )
    return settled([finding], compared=[])
