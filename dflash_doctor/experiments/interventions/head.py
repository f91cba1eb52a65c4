"""The drafter's own tables against the target's: head, vocabulary map, embedding and its scale."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dflash_doctor.experiments.base import Subject, TrialPlan, number
from dflash_doctor.reference.knobs import Knobs


def plans(subject: Subject) -> Iterable[TrialPlan]:
    """Tables worth exchanging."""
    facts, maps = subject.facts, subject.contract.vocab_maps
    draft = subject.contract.draft_config
    if facts.has_own_head:
        reduced = draft is not None and draft.draft_vocab_size not in (None, facts.vocab_rows)
        if maps or reduced:
            yield TrialPlan(
                name="vocab-map found again",
                cause="draft-vocab-map-broken",
                knobs=Knobs(vocab_map="matched"),
                change="d2t of the file -> each head row's likest in the target's head",
                remedy="restore d2t and t2d from the parent checkpoint and export the drafter again",
            )
        if not reduced:
            # A reduced head says less than the target's by design: the whole one is no fair comparison.
            yield TrialPlan(
                name="head of the target",
                cause="target-head-not-shared",
                knobs=Knobs(head="target"),
                change="the drafter's own lm_head -> the target's",
                remedy="remove lm_head.weight from the drafter's file: engines then share the target's head",
            )
    if facts.has_own_embedding:
        yield TrialPlan(
            name="embedding of the target",
            cause="embedding-scale-missing",
            knobs=Knobs(embedding="target"),
            change="the drafter's own embed_tokens -> the target's",
            remedy="remove embed_tokens.weight from the drafter's file, so that engines share the target's",
        )
    root, own = math.sqrt(facts.hidden_size), subject.reading.embedding_scale
    for scale in dict.fromkeys((1.0, root, 1 / root, subject.trained.embedding_scale)):
        if scale != own:
            yield TrialPlan(
                name=f"embedding-scale {number(round(scale, 4))}",
                cause="embedding-scale-missing",
                knobs=Knobs(embedding_scale=scale),
                change=f"embeddings of the block x {own:g} -> x {scale:g}",
                remedy=subject.edit("input_embedding_scale", "input_embedding_scale", f"{scale:g}")
                + ", with an engine that applies it",
            )
