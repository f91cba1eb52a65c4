"""Other mask tokens: the tokenizer's added tokens and ids that published drafters use."""

from __future__ import annotations

from collections.abc import Iterable

from dflash_doctor.experiments.base import Subject, TrialPlan
from dflash_doctor.reference.knobs import Knobs

_PUBLISHED = (151669, 248070, 248077, 201818, 200018, 4, 12)
"""Mask ids of published drafters (Qwen3, Qwen3.5 and 3.6, Muse-Glimmer, gpt-oss, Gemma 4, Laguna)."""
_MOST = 24


def plans(subject: Subject) -> Iterable[TrialPlan]:
    """Mask ids worth trying: added tokens first, then published ids, then the ends of the vocabulary."""
    own, rows = subject.reading.mask_token_id, subject.facts.vocab_rows
    vocab = subject.contract.target_config.vocab_size if subject.contract.target_config else None
    ends = [end - 1 for end in (vocab, rows) if end]
    candidates = [subject.trained.mask_token_id, *subject.special_ids, *_PUBLISHED, *ends, 0]
    fit = [
        item for item in dict.fromkeys(candidates) if item is not None and item != own and 0 <= item < rows
    ]
    for candidate in fit[:_MOST]:
        yield TrialPlan(
            name=f"mask-token {candidate}",
            cause="mask-token-wrong",
            knobs=Knobs(mask_token_id=candidate),
            change=f"mask_token_id {own} -> {candidate}",
            remedy=subject.edit("mask_token_id", "dflash_config.mask_token_id", candidate),
        )
