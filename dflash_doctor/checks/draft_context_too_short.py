"""Sequences may grow past the drafter's position limit

## What it checks

The longest sequence that is served (`max_model_len`, else the target's own limit) against the drafter's
`max_position_embeddings`. Overrides given to the target (`hf_overrides`) do not reach the drafter.

## Why it matters

Past the limit the engine drafts token 0 or reads frequencies that do not exist. One engine then accepts
nothing in the *whole batch* as soon as one sequence is too long, and still pays for every draft
(vllm-project/vllm#58080).

## Example

    DF116 sequences of 131,072 tokens are served and the drafter knows positions up to 40,960
      do:       limit max_model_len to 40960, or give the drafter its own override

## What to do

Limit `max_model_len`, or give the drafter an override of its own if its training allows longer contexts.
"""

from __future__ import annotations

import re

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding

_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG]?)")


def judge(case: Case) -> Outcome:
    """Compare the served length with the drafter's."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    limit = view.config.max_position_embeddings
    served, from_argument = _served(view)
    if limit is None or served is None:
        what = "the drafter's position limit" if limit is None else "the served length"
        return skipped(f"not checked: {what} is not stated")
    if served <= limit:
        return settled([], compared=[f"served length {served:,} is within the drafter's {limit:,}"])
    severity = "error" if from_argument else "warning"
    finding = Finding(
        code="DF116",
        severity=severity,  # type: ignore[arg-type]
        message=f"sequences of {served:,} tokens may be served, and the drafter knows {limit:,} positions",
        observed=f"max_position_embeddings {limit:,} in the drafter's config; served length {served:,} "
        + ("(max_model_len)" if from_argument else "(the target's own limit; no max_model_len given)"),
        expected=f"at most {limit:,}",
        remedy=f"limit max_model_len to {limit}, or give the drafter its own override",
        edit=f"--engine-arg max_model_len={limit}",
        where=view.in_draft("max_position_embeddings"),
        causes=("draft-max-length",),
        numbers={"served_length": served, "draft_limit": limit},
    )
    return settled([finding], compared=[])


def _length(asked: object) -> int | None:
    """A length as vLLM takes it: `64k` is 64,000, `64K` is 65,536; `None` for `auto`, -1 and the like."""
    if isinstance(asked, int):
        return None if isinstance(asked, bool) or asked <= 0 else asked
    match = _HUMAN.fullmatch(str(asked))
    if match is None:
        return None
    number, unit = float(match.group(1)), match.group(2)
    power = " kmg".index(unit.lower() or " ")
    return int(number * (1024 if unit.isupper() else 1000) ** power)


def _served(view: PairView) -> tuple[int | None, bool]:
    """The served length, and whether an argument asks for it."""
    asked = view.argument("max_model_len", "context_length")
    if asked is not None:
        return _length(asked), True
    overrides = view.argument("hf_overrides")
    if isinstance(overrides, dict) and isinstance(overrides.get("max_position_embeddings"), int):
        return overrides["max_position_embeddings"], True
    return view.target_config.max_position_embeddings if view.target_config is not None else None, False
