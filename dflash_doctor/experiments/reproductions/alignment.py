"""Features, positions and context that do not line up with the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dflash_doctor.experiments.base import Subject, TrialPlan
from dflash_doctor.reference.knobs import Knobs

_HOLES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
"""First tokens of a text that a cache may bring back without the drafter's rows: its block sizes and more."""
_CHUNKS = (8, 16, 32, 64)
_FILL = "--no-enable-prefix-caching (and no chunked prefill) until the engine fills them"
_UPGRADE = "use an engine release that fixes it; until then pin the last good one"


def plans(subject: Subject) -> Iterable[TrialPlan]:
    """Misalignments worth putting in."""
    if subject.facts.num_layers > 1:
        yield TrialPlan(
            name="context keys with layer 0's norm",
            cause="draft-context-key-norm",
            knobs=Knobs(context_key_norm_of=0),
            change="context keys of every drafter layer normalised with layer 0's k_norm weight",
            remedy=_UPGRADE + " (the CPU build of vLLM 0.32 has it; CUDA builds use another kernel)",
        )
    for shift in (1, -1, 2, -2):
        yield TrialPlan(
            name=f"block positions {shift:+d}",
            cause="draft-position-error",
            knobs=Knobs(query_shift=shift),
            change=f"positions of the block's slots {shift:+d}",
            remedy=_UPGRADE,
        )
    for lag in (1, 2):
        yield TrialPlan(
            name=f"features {lag} late",
            cause="draft-position-error",
            knobs=Knobs(context_lag=lag),
            change=f"context rows hold the features of the token {lag} before their own",
            remedy=_UPGRADE,
        )
    for offset in (-1, 1):
        yield TrialPlan(
            name=f"slots read {offset:+d}",
            cause="block-layout-anchor",
            knobs=Knobs(slot_offset=offset),
            change=f"drafts read {'one slot early' if offset < 0 else 'one slot late'}",
            remedy="use a method or release whose block layout is the drafter's (sample_from_anchor)",
        )
    yield from _holes(subject)
    most = subject.reading.max_position_embeddings
    if most is not None and most < subject.longest_text + subject.facts.num_draft_tokens:
        yield TrialPlan(
            name=f"nothing drafted past {most}",
            cause="draft-max-length",
            knobs=Knobs(max_length=most),
            change=f"draft tokens are 0 once a text passes {most} tokens",
            remedy=subject.edit("max_position_embeddings", "max_position_embeddings", "the served length"),
        )


def _holes(subject: Subject) -> Iterator[TrialPlan]:
    for size in _HOLES:
        if size < subject.longest_text:
            yield TrialPlan(
                name=f"first {size} context rows unwritten",
                cause="draft-context-holes",
                knobs=Knobs(erased_first=size),
                change=f"the drafter's keys and values of the first {size} tokens were never written",
                remedy=_FILL,
            )
    for every in _CHUNKS:
        for size in sorted({every // 4, every * 3 // 8, every // 2}):
            yield TrialPlan(
                name=f"{size} of every {every} context rows unwritten",
                cause="draft-context-holes",
                knobs=Knobs(erased_of_every=(size, every)),
                change=f"the drafter's keys and values of {size} of every {every} tokens were never written",
                remedy=_FILL,
            )
    for size in (1, 2, 4):
        yield TrialPlan(
            name=f"last {size} context rows missing",
            cause="draft-context-polluted",
            knobs=Knobs(context_end=size),
            change=f"the last {size} tokens before the anchor have no rows in the drafter's context",
            remedy=_UPGRADE,
        )
