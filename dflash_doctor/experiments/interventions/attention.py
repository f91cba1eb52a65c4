"""Attention inside the block and to the context: causality, sliding windows, which slots predict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dflash_doctor.experiments.base import Subject, TrialPlan
from dflash_doctor.reference.knobs import Knobs

_COMMON_WINDOWS = (4096, 2048, 1024, 512, 256, 128, 64, 32, 16)


def plans(subject: Subject) -> Iterable[TrialPlan]:
    """Causality, windows and anchor layouts worth trying."""
    causal = subject.reading.causal or ()
    for wanted in (False, True):
        if not causal or any(item != wanted for item in causal):
            yield TrialPlan(
                name=f"causal {str(wanted).lower()}",
                cause="causal-flag",
                knobs=Knobs(causal=wanted),
                change="attention inside the block "
                + ("bidirectional -> causal" if wanted else "causal -> bidirectional"),
                remedy=subject.edit("is_causal", "is_causal", str(wanted).lower()),
            )
    yield from _windows(subject)
    drafted = subject.reading.num_draft_tokens
    predicts = drafted is not None and drafted == subject.facts.block_size
    yield TrialPlan(
        name=f"anchor {'reads' if predicts else 'predicts'}",
        cause="block-layout-anchor",
        knobs=Knobs(samples_from_anchor=not predicts),
        change="the anchor slot "
        + ("predicts -> does not predict" if predicts else "does not predict -> predicts"),
        remedy="serve it with a method whose anchor slot "
        + (
            "is only read (sample_from_anchor = false)"
            if predicts
            else "predicts (sample_from_anchor = true)"
        ),
    )


def _windows(subject: Subject) -> Iterator[TrialPlan]:
    draft = subject.contract.draft_config
    windows = subject.reading.windows or ()
    used = {item for item in windows if item}
    own = f"window {', '.join(map(str, sorted(used)))}" if used else "full attention"
    if used:
        yield TrialPlan(
            name="window none",
            cause="sliding-window-ignored",
            knobs=Knobs(window=0),
            change=f"{own} -> full attention",
            remedy=subject.edit("layer_types", "layer_types", "full_attention for every layer"),
        )
    stated = [draft.window if draft else None, *(subject.trained.windows or ())]
    candidates = [item for item in (*stated, *_COMMON_WINDOWS) if item]
    for window in dict.fromkeys(candidates):
        if used == {window} or window >= subject.longest_text:
            continue
        yield TrialPlan(
            name=f"window {window}",
            cause="sliding-window-ignored",
            knobs=Knobs(window=window),
            change=f"{own} -> window {window}",
            remedy=subject.edit("layer_types", "layer_types", "sliding_attention for every layer")
            + f" and sliding_window = {window}",
        )
