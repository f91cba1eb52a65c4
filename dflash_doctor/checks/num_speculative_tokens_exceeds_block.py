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
      observed: K = 12; positions 7 to 11 were accepted in 0.4 % of the steps or less, and the
                target verified each of them
      expected: at most 7 (block_size 8, one slot is the anchor)
      do:       set num_speculative_tokens to 7

## What to do

Set `num_speculative_tokens` to `block_size - 1` (vLLM), or the number of draft tokens to `block_size`
(SGLang). A wider block needs a drafter that was trained with one.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, failed, passed, skipped
from dflash_doctor.records import Finding, Where

_BLOCK_METHODS = ("dflash",)
"""Methods whose drafters do not predict from the anchor slot."""


def judge(case: Case) -> Outcome:
    """Compare K with the block."""
    facts = case.evidence.facts
    if facts is None:
        return skipped("the engine did not start, so its settings are not known")
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
    return failed(
        f"K = {num_tokens} is beyond the block of {facts.block_size}",
        [
            Finding(
                code="DF101",
                severity="error",
                message="the drafter is asked for more tokens than its block holds",
                observed=observed,
                expected=f"at most {widest} (block_size {facts.block_size}, one slot is the anchor)",
                remedy=f"set num_speculative_tokens to {widest}",
                where=Where(file="config.json", field="block_size"),
                causes=("num-speculative-tokens-exceeds-block",),
                numbers={"num_speculative_tokens": num_tokens, "block_size": facts.block_size},
            )
        ],
    )
