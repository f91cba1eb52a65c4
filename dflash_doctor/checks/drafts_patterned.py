"""The drafts follow a pattern that no working drafter makes

## What it checks

Patterns in the engine's own draft tokens. All drafts read 0, 0, 0 or 0, 1, 2: what a maximum over
not-a-number gives. They do so from some text length on, or now and then. Draft ids differ from the
reference's by one and the same number. Drafts are right behind a fully accepted step and wrong behind a
refusal. The live drafter speaks through a head that is neither its file's nor the target's. And whether the
reference meets numbers that are infinite or not a number.

## Why it matters

Each of these is the defect itself, seen in the data: no experiment is needed, and none of the drafter's
settings can bring it about. It is also the kind of defect that averages hide: drafts that fail one step in
four cost a quarter of the speed and look like a weak drafter.

## Example

    DF408 the drafts follow a pattern that no working drafter makes
      observed: 131 of 402 drafts are token 0 throughout, all of them past 80 tokens
      expected: drafts that depend on the text
      do:       raise max_position_embeddings of the drafter to the served length

## What to do

Follow the remedy of the pattern. Where drafts fail at times, look at the engine's log for those moments, and
run once more in eager mode and one request at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

from dflash_doctor.checks.base import Case, Outcome, failed, passed, skipped
from dflash_doctor.evidence import requests_of
from dflash_doctor.metrics.patterns import empty_drafts, id_offset, loss_after_rejection
from dflash_doctor.records import Finding
from dflash_doctor.trials import ReferenceText

_ALWAYS = 0.9
_AT_TIMES = 0.03
"""A working drafter does not draft token 0 throughout at all; a token of that id may come up in a text."""
_SAME_OFFSET = 0.4
"""Of the draft tokens that differ; by chance differences are spread over thousands of ids."""
_LEAST_OFFSET = 0.03
_LOSS_AFTER_REJECTION = 0.15


def judge(case: Case) -> Outcome:
    """Look for each pattern; the most telling comes first."""
    requests = requests_of(case.evidence.speculative)
    if not any(step.draft_ids for trace in requests for step in trace.steps or ()):
        return skipped("draft tokens are not known at this level")
    findings = [*_head(case), *_non_finite(case), *_empty(case), *_offset(case), *_polluted(case)]
    if findings:
        return failed("; ".join(item.observed for item in findings), findings)
    return passed("drafts depend on the text and on nothing else that was looked for")


def _head(case: Case) -> Iterator[Finding]:
    facts, contract = case.evidence.facts, case.evidence.contract
    draft = contract.pair.draft if contract is not None and contract.pair is not None else None
    if facts is None or facts.lm_head_shared is not False or draft is None or draft.tensors is None:
        return
    if draft.tensor("lm_head.weight") is None:
        yield _finding(
            "the live drafter's head is not the target's, and its file has none",
            "use an engine release that shares the target's head with a drafter that has none",
            "target-head-not-shared",
        )


def _non_finite(case: Case) -> Iterator[Finding]:
    experiments = case.evidence.experiments
    reference = experiments.reference if experiments is not None else None
    if reference is None:
        return
    drafted = reference.profile.num_non_finite if reference.profile is not None else 0
    for count, where in (
        (reference.num_non_finite_states, "the target's hidden states"),
        (drafted, "the drafter's logits"),
    ):
        if count:
            yield _finding(
                f"{count:,} numbers of {where} are infinite or not a number in {reference.dtype}",
                "run the pair in bfloat16 or float32; if they are there too, copy the weights again",
                "draft-dtype-overflow",
            )


def _empty(case: Case) -> Iterator[Finding]:
    found = empty_drafts(requests_of(case.evidence.speculative))
    if found.num_empty < max(3, _AT_TIMES * found.num_drafts):
        return
    told = f"{found.num_empty:,} of {found.num_drafts:,} drafts read 0, 0, 0 or 0, 1, 2"
    if found.num_empty >= _ALWAYS * found.num_drafts:
        yield _finding(
            told, "run the drafter in bfloat16: these are ids over not-a-number", "draft-dtype-overflow"
        )
    elif found.past_length is not None:
        yield _finding(
            f"{told}, and nearly all drafts past {found.past_length} tokens do",
            "raise max_position_embeddings of the drafter, or its max_model_len, to the served length",
            "draft-max-length",
        )
    else:
        yield _finding(
            f"{told}, at all lengths",
            "look at the engine's log for those moments; run eager and with synchronous scheduling",
            "engine-instability",
        )


def _offset(case: Case) -> Iterator[Finding]:
    found = id_offset(_texts(case))
    if found is None or found.num_drafts < _LEAST_OFFSET * found.num_compared:
        return
    if found.num_drafts >= _SAME_OFFSET * found.num_unequal:
        yield _finding(
            f"{found.num_drafts:,} of {found.num_unequal:,} draft tokens that differ from the reference's "
            f"do so by {found.offset:+d} in their id",
            "use an engine release that maps draft ids back (d2t), or restore the map from the parent",
            "draft-vocab-map-broken",
        )


def _polluted(case: Case) -> Iterator[Finding]:
    after, others = loss_after_rejection(_texts(case))
    if None in (after.high, others.low) or after.value is None or others.value is None:
        return
    assert after.high is not None, "just looked"
    assert others.low is not None, "just looked"
    if after.high < others.low and others.value - after.value >= _LOSS_AFTER_REJECTION:
        yield _finding(
            f"{100 * after.value:.1f} % of the draft tokens are the reference's behind a refused draft, "
            f"{100 * others.value:.1f} % elsewhere",
            "use an engine release that drops refused tokens from the drafter's context",
            "draft-context-polluted",
        )


def _texts(case: Case) -> tuple[ReferenceText, ...]:
    experiments = case.evidence.experiments
    return () if experiments is None or experiments.reference is None else experiments.reference.texts


def _finding(seen: str, remedy: str, cause: str) -> Finding:
    return Finding(
        code="DF408",
        severity="error",
        message="the drafts follow a pattern that no working drafter makes",
        observed=seen,
        expected="drafts that depend on the text",
        remedy=remedy,
        causes=(cause,),
    )
