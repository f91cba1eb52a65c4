"""Where two renderings part for the first time, in characters and in the target's tokens."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from dflash_doctor.checkpoints.tokenizer_behaviour import encode_texts
from dflash_doctor.checkpoints.tokenizer_file import read_tokenizer
from dflash_doctor.contract.templates import TemplateDifference, Thinking

_BEFORE, _AFTER = 24, 60
"""Characters of an excerpt on each side of the first difference."""


def first_difference(one: str, other: str) -> int:
    """Index of the first character that differs; the shorter length where one begins the other."""
    shared = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(shared) if a != b), min(len(one), len(other)))


def difference_of(
    target: str,
    draft: str,
    *,
    case: str,
    thinking: Thinking,
    ids: tuple[Sequence[int], Sequence[int]] | None = None,
) -> TemplateDifference:
    """The first difference of two texts that differ; `ids` are their tokens, where they are known."""
    index = first_difference(target, draft)
    start = max(0, index - _BEFORE)
    token_index, target_id, draft_id = _first_token(ids)
    return TemplateDifference(
        case=case,
        thinking=thinking,
        char_index=index,
        target_excerpt=target[start : index + _AFTER],
        draft_excerpt=draft[start : index + _AFTER],
        token_index=token_index,
        target_id=target_id,
        draft_id=draft_id,
    )


def encode_all(folder: Path, texts: Sequence[str]) -> Sequence[Sequence[int]] | None:
    """Token ids of each text, without special tokens; `None` where the folder's tokenizer gives none."""
    return encode_texts(read_tokenizer(folder), texts)


def _first_token(
    both: tuple[Sequence[int], Sequence[int]] | None,
) -> tuple[int | None, int | None, int | None]:
    """Index and both ids of the first token that differs; all `None` where there is none."""
    for index, (one, other) in enumerate(itertools.zip_longest(*(both or ((), ())))):
        if one != other:
            return index, one, other
    return None, None, None
