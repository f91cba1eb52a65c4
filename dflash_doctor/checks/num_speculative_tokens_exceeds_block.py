"""More draft tokens are asked for than the drafter's block holds

## What it checks

A DFlash drafter fills a block of `block_size` slots at once. Slot 0 is the last committed token (the
anchor), so a block proposes `block_size - 1` tokens. The check compares the number of speculative
tokens K that the engine really uses with that width.

## Why it matters

vLLM does not compare the two: it starts, and asks the drafter for positions it never saw in training.
Most of those tokens are refused, while the target still verifies each of them in every step: the
acceptance length hardly moves or falls, and every step costs more. SGLang counts the anchor
(`num_draft_tokens` is the block), vLLM does not, so a number copied from one to the other is off by one.

## Example

    DF101 the drafter is asked for more tokens than its block holds
      seen:     K = 12; positions 7 to 11 were accepted in 0.4 % of the steps or less, and the
                target verified each of them
      expected: at most 7 (block_size 8, one slot is the anchor)
      do:       set num_speculative_tokens to 7

## What to do

Set `num_speculative_tokens` to `block_size - 1` (vLLM), or the number of draft tokens to `block_size`
(SGLang). A wider block needs a drafter that was trained with one.
"""

from __future__ import annotations

from typing import Any

from dflash_doctor.checks.base import Case, Outcome, failed, passed, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.evidence import EngineFacts
from dflash_doctor.records import Finding, Where

_BLOCK_METHODS = ("dflash",)
"""Methods whose drafters do not predict from the anchor slot."""
_COUNTING_THE_ANCHOR = ("speculative_num_draft_tokens", "speculative_dflash_block_size")
"""SGLang's arguments, which name the width of the block."""


def judge(case: Case) -> Outcome:
    """Compare K with the block: as the live engine has both, else as files and settings say."""
    facts = case.evidence.facts
    if facts is not None:
        return _live(case, facts)
    view = pair_view(case)
    return view if isinstance(view, Outcome) else _static(case, view)


def _live(case: Case, facts: EngineFacts) -> Outcome:
    if facts.method not in _BLOCK_METHODS:
        return skipped(f"method {facts.method} has no block")
    num_tokens = facts.num_spec_tokens or case.num_speculative_tokens
    if facts.block_size is None or num_tokens is None:
        return skipped("the draft config names no block_size")
    widest = facts.block_size - 1
    if num_tokens <= widest:
        return passed(f"K = {num_tokens} is within the block (block_size {facts.block_size})")
    beyond = case.metrics.by_position[widest:]
    rates = [entry.acceptance_rate.value for entry in beyond if entry.acceptance_rate.value is not None]
    observed = f"K = {num_tokens}"
    if rates:
        observed += (
            f"; positions {widest} to {num_tokens - 1} were accepted in {100 * rates[0]:.1f} % of the steps "
            f"or less, and the target verified each of them"
        )
    where = Where(file="config.json", field="block_size")
    contract = case.evidence.contract
    if contract is not None and contract.pair is not None and contract.pair.draft is not None:
        view = pair_view(case)
        where = view.in_draft("block_size") if isinstance(view, PairView) else where
    flag = f"--num-speculative-tokens {widest}"
    return _exceeds(num_tokens, widest, facts.block_size, observed, where, flag)


def _static(case: Case, view: PairView) -> Outcome:
    block, served = view.config.block_size, view.served
    widest = served.num_draft_tokens if served is not None else None
    if block is None or widest is None:
        return skipped(
            "not checked: the draft config names no block_size (z-lab's code and SGLang then take 16)"
        )
    if widest < 1:
        return _exceeds(1, 0, block, f"block_size {block}", view.in_draft("block_size"), None)
    asked, how, edit = _asked(case, view, widest)
    if asked is None:
        return passed(f"K is not given: {widest} tokens are drafted from a block of {block}")
    if asked <= widest:
        return passed(f"K = {asked} is within the block (block_size {block})")
    return _exceeds(asked, widest, block, f"K = {asked} ({how})", view.in_draft("block_size"), edit)


def _asked(case: Case, view: PairView, widest: int) -> tuple[int | None, str, str | None]:
    """K as it was asked for, by whom, and the edit that puts it right.

    Arguments that count the anchor have one more; without any, the drafter's own proposal counts.
    """
    for name in _COUNTING_THE_ANCHOR:
        width: Any = view.argument(name)
        if isinstance(width, int) and not isinstance(width, bool):
            edit = f"--engine-arg {name}={widest + 1}"
            return width - 1, f"{name} {width} counts the anchor", edit
    nested = view.speculative("num_speculative_tokens")
    if isinstance(nested, int) and not isinstance(nested, bool):
        return nested, "engine argument", f"--engine-arg speculative_config.num_speculative_tokens={widest}"
    flag = f"--num-speculative-tokens {widest}"
    if case.num_speculative_tokens is not None:
        return case.num_speculative_tokens, "num_speculative_tokens", flag
    return view.config.proposed_tokens, "the drafter's own proposal_methods", flag


def _exceeds(
    num_tokens: int, widest: int, block: int, observed: str, where: Where, edit: str | None
) -> Outcome:
    finding = Finding(
        code="DF101",
        severity="error",
        message="the drafter is asked for more tokens than its block holds",
        observed=observed,
        expected=f"at most {widest} (block_size {block}, one slot is the anchor)"
        if widest < block
        else f"at most {widest} (block_size {block})",
        remedy=f"set num_speculative_tokens to {widest}"
        if widest
        else "take a drafter whose block holds more than the anchor",
        edit=edit,
        where=where,
        causes=("num-speculative-tokens-exceeds-block",),
        numbers={"num_speculative_tokens": num_tokens, "block_size": block},
    )
    return failed(f"K = {num_tokens} is beyond the block of {block}", [finding])
