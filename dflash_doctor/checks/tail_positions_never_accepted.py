"""Draft positions from some index on are never accepted

## What it checks

Whether acceptance is exactly zero from some draft position on while the positions before it live, with
enough steps that this is no chance: if one in twenty tokens there were good, a run of so many refusals
would have a probability below one in a thousand.

## Why it matters

The drafter's block is narrower than the number of tokens asked of it: the rest is noise that the target
verifies in every step. It shows where the trained width is not in the config, or where the block size was
read from the wrong place (a default of 16 for a drafter of 8).

## Example

    DF403 draft positions are never accepted
      seen:     positions 7 to 14 accepted 0 times; 212 steps had accepted everything before
      expected: some acceptance, as at position 6 (0.31 of the steps)
      do:       set num_speculative_tokens to 7

## What to do

Set the number of speculative tokens to the last position that lives, or find out why the engine cuts the
block there.
"""

from __future__ import annotations

import math

from dflash_doctor.checks.base import Case, Outcome, failed, inconclusive, passed, skipped
from dflash_doctor.records import Finding, PositionMetrics

_LEAST_RATE = 0.05
"""A conditional acceptance worth having; a position below it does not pay for its verification."""
_MAX_CHANCE = 1e-3


def judge(case: Case) -> Outcome:
    """Find the first dead position behind a living one."""
    positions = case.metrics.by_position
    overall = case.metrics.overall
    if not positions:
        return skipped("no per-step data, so positions are not known")
    if overall is None or not overall.num_accepted_draft_tokens:
        return skipped("no draft token was accepted at all; see DF402")
    num_alive = next((item.position for item in positions if item.num_accepted == 0), len(positions))
    if num_alive == len(positions):
        return passed(f"every one of the {len(positions)} draft positions was accepted at times")
    last_alive, first_dead = positions[num_alive - 1], positions[num_alive]
    tries = last_alive.num_accepted
    chance = (1 - _LEAST_RATE) ** tries
    seen = f"position {first_dead.position} accepted 0 times in {tries} tries"
    if chance >= _MAX_CHANCE:
        needed = math.ceil(math.log(_MAX_CHANCE) / math.log(1 - _LEAST_RATE))
        return inconclusive(f"{seen}; a verdict needs {needed} tries")
    return failed(seen, [_finding(positions, last_alive, first_dead)])


def _finding(
    positions: tuple[PositionMetrics, ...], last_alive: PositionMetrics, first_dead: PositionMetrics
) -> Finding:
    last = positions[-1].position
    span = f"position {last}" if first_dead.position == last else f"positions {first_dead.position} to {last}"
    return Finding(
        code="DF403",
        severity="error",
        message="draft positions are never accepted",
        observed=f"{span} accepted 0 times; {last_alive.num_accepted} steps had accepted everything before",
        expected=f"some acceptance, as at position {last_alive.position} "
        f"({last_alive.acceptance_rate.value:.2f} of the steps)",
        remedy=f"set num_speculative_tokens to {first_dead.position}",
        causes=("num-speculative-tokens-exceeds-block",),
        numbers={"first_dead_position": first_dead.position, "num_tries": last_alive.num_accepted},
    )
