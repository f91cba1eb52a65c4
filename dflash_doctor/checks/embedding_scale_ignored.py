"""The drafter needs a scale on its embeddings, or a cap on its logits, that the engine does not apply

## What it checks

`input_embedding_scale` and `final_logit_softcapping` in the drafter's config against what the serving
engine does with them. Targets of the Gemma family multiply embeddings by the square root of the hidden
size; whether a drafter for them wants the same only its own config can say.

## Why it matters

Embeddings that are too small by sqrt(hidden) take an acceptance length of 4.3 to 2.8 on the bundled pair,
and a Gemma drafter in the field near nothing (vllm-project/vllm#41703). A missing soft cap leaves greedy
drafts as they are and biases sampled ones.

## Example

    DF111 vllm does not apply the drafter's embedding scale
      seen:     input_embedding_scale 73.3; vllm multiplies by 1

## What to do

Serve with an engine version whose drafter class applies the scale.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import pair_view
from dflash_doctor.records import Finding


def judge(case: Case) -> Outcome:
    """Compare scale and cap with what the engine applies."""
    view = pair_view(case)
    if isinstance(view, Outcome):
        return view
    served = view.served
    if served is None:
        return skipped(f"not checked: what {view.engine} does to embeddings and logits")
    wanted_scale, wanted_cap = view.trained.embedding_scale, view.trained.softcap
    findings, compared = [], []
    if wanted_scale != served.embedding_scale:
        findings.append(
            Finding(
                code="DF111",
                severity="error",
                message=f"{view.engine} does not apply the drafter's embedding scale",
                observed=f"input_embedding_scale {wanted_scale:g}; {view.engine} multiplies by "
                f"{served.embedding_scale:g}",
                expected=f"embeddings of the block multiplied by {wanted_scale:g}",
                remedy="serve with an engine version whose drafter class applies the scale",
                where=view.in_draft("input_embedding_scale"),
                causes=("embedding-scale-missing",),
            )
        )
    else:
        compared.append(f"embeddings are multiplied by {wanted_scale:g}, as the file says")
    if wanted_cap != served.softcap:
        findings.append(
            Finding(
                code="DF111",
                severity="info",
                message=f"{view.engine} puts no soft cap on the draft logits",
                observed=f"final_logit_softcapping {wanted_cap:g} in the drafter's config",
                expected="no effect on greedy drafts; sampled drafts differ from training",
                remedy="draft greedily (the default)",
                where=view.in_draft("final_logit_softcapping"),
            )
        )
    unchecked = []
    if view.target_config is not None and view.target_config.scales_embedding and wanted_scale == 1:
        unchecked.append(
            "whether the drafter was trained on scaled embeddings (the target's family scales them, "
            "the drafter's config is silent)"
        )
    return settled(findings, compared=compared, unchecked=unchecked)
