"""The drafter has no output head of its own and cannot use the target's

## What it checks

Whether there is an output head to turn the drafter's states into tokens: its own `lm_head`, else the
target's (`lm_head.weight`, or the embedding where the target ties the two). Also: a reduced draft
vocabulary without a head of its own, and vocabulary sizes that differ by padding alone, which made one
engine leave the shared head unset.

## Why it matters

A head left at random drafts noise: acceptance length 1.00, eight tokens accepted of 162,000, nothing logged
(vllm-project/vllm#46435). Trainers that ignore `tie_word_embeddings` do the same one step earlier
(sgl-project/SpecForge#473).

## Example

    DF109 the drafter has a reduced vocabulary and no output head for it
      seen:     draft_vocab_size 32,000 and no lm_head.weight in the drafter's file

## What to do

Export the drafter with its head. For sizes that differ by padding, write the target's `vocab_size` into the
drafter's config.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.draft_vocab_map_broken import PADDING
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.contract.pair import Checkpoint
from dflash_doctor.records import Finding

_HEADS = ("lm_head.weight", "output.weight", "embed_out.weight")
_EMBEDDINGS = ("embed_tokens.weight", "embed_in.weight", "wte.weight")


def judge(case: Case) -> Outcome:
    """Look for a head."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    if view.draft.tensors is None:
        return skipped("not checked: the drafter's tensors could not be read")
    own = _has(view.draft, "lm_head")
    findings, compared, unchecked = [], [], []
    target = view.target_config.vocab_size if view.target_config is not None else None
    size = view.config.draft_vocab_size
    reduced = size is not None and target is not None and target - size >= PADDING
    if own:
        compared.append("the drafter brings its own lm_head")
    elif not view.config.is_block_drafter and view.config.dialect == "draft-model":
        compared.append("a draft model ties its head or brings it")
    elif reduced:
        findings.append(_without_head(view))
    elif view.target.tensors is None:
        unchecked.append("whether the target has a head to share (its tensors could not be read)")
    elif not _target_has_head(view):
        findings.append(_nothing_to_share(view))
    else:
        compared.append("the target's head is shared")
        findings += _padding(view, target)
    return settled(findings, compared=compared, unchecked=unchecked)


def _has(checkpoint: Checkpoint, module: str) -> bool:
    """Whether any tensor of a module is there, quantised or not."""
    return any(f".{item.name}".find(f".{module}.") >= 0 for item in checkpoint.tensors or ())


def _target_has_head(view: PairView) -> bool:
    names = [item.name for item in view.target.tensors or ()]
    if any(_has(view.target, name.removesuffix(".weight")) for name in _HEADS):
        return True
    tied = view.target_config is not None and view.target_config.tie_word_embeddings is not False
    return tied and any(name.endswith(_EMBEDDINGS) for name in names)


def _padding(view: PairView, target: int | None) -> list[Finding]:
    """Sizes that differ by padding alone."""
    said = view.config.draft_vocab_size or view.config.vocab_size
    if said is None or target is None or said == target:
        return []
    field = "draft_vocab_size" if view.config.draft_vocab_size is not None else "vocab_size"
    near = abs(target - said) < PADDING
    return [
        Finding(
            code="DF109",
            severity="warning" if near else "error",
            message="drafter and target state different vocabulary sizes, and the head is shared",
            observed=f"drafter {said:,}, target {target:,}"
            + (": padding, and some engine versions then leave the head unset" if near else ""),
            expected=f"{target:,} in both",
            remedy="write the target's vocab_size into the drafter's config",
            edit=f"{view.draft.config_file}: {view.config.sources.get(field, field)} = {target}",
            where=view.in_draft(field),
            causes=("target-head-not-shared", "wrong-drafter-for-target"),
            numbers={"draft_vocab_size": said, "target_vocab_size": target},
        )
    ]


def _without_head(view: PairView) -> Finding:
    return Finding(
        code="DF109",
        severity="error",
        message="the drafter has a reduced vocabulary and no output head for it",
        observed=f"draft_vocab_size {view.config.draft_vocab_size:,} and no lm_head in the drafter's file",
        expected="a tensor lm_head.weight of that many rows",
        remedy="export the drafter with its head",
        where=view.in_draft("draft_vocab_size"),
        causes=("target-head-not-shared", "draft-weights-not-loaded"),
    )


def _nothing_to_share(view: PairView) -> Finding:
    return Finding(
        code="DF109",
        severity="error",
        message="neither drafter nor target has an output head",
        observed="no lm_head in the drafter's file; in the target's neither, and its config does not tie "
        "head and embedding",
        expected="a head in one of them, or tie_word_embeddings: true in the target's config",
        remedy="download the target again; check tie_word_embeddings",
        where=view.in_target("tie_word_embeddings"),
        causes=("target-head-not-shared",),
    )
