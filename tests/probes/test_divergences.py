"""Divergences are located, attributed to a step, and scored after the common prefix."""

from __future__ import annotations

from typing import Any

import msgspec
from evidence_factory import make_generation, make_request, without_steps

from dflash_doctor.engines.base import Capabilities, Continuation
from dflash_doctor.evidence import RequestTrace
from dflash_doctor.probes.divergences import find_divergences, score_divergences


class Scorer:
    """Answers with the token ids themselves, and remembers what it was asked."""

    def __init__(self, *, can_score: bool = True) -> None:
        self.asked: list[Continuation] = []
        self.capabilities = Capabilities(
            level="request", arms=("target-only",), can_score=can_score, can_sample=True, can_render=True
        )

    def score(self, continuations: Any) -> Any:
        self.asked += continuations
        return tuple(tuple(-float(token) for token in item.token_ids) for item in continuations)


def changed(trace: RequestTrace, index: int) -> RequestTrace:
    output = list(trace.output_ids)
    output[index] += 1
    return msgspec.structs.replace(without_steps(trace), output_ids=tuple(output))


def parts_at(index: int) -> Any:
    # prefill token, then steps of 4 (3 accepted), 1 (none accepted) and 8 (all accepted) tokens
    trace = make_request("p", accepted=(3, 0, 7))
    return find_divergences(
        make_generation([trace]), make_generation([changed(trace, index)], arm="target-only")
    )[0]


def test_find_divergences_when_texts_are_equal_then_finds_none() -> None:
    trace = make_request("p")
    own = make_generation([without_steps(trace)], arm="target-only")
    assert find_divergences(make_generation([trace]), own) == ()


def test_find_divergences_when_texts_part_then_names_the_token_and_its_origin() -> None:
    origins = {index: parts_at(index).source for index in (0, 1, 3, 4, 5, 6, 12, 13)}
    assert origins == {
        0: "prefill",
        1: "accepted",
        3: "accepted",
        4: "recovered",
        5: "recovered",
        6: "accepted",
        12: "accepted",
        13: "bonus",
    }
    found = parts_at(3)
    assert found.index == 3
    assert found.target_id == found.speculative_id + 1


def test_find_divergences_when_one_text_ends_earlier_then_that_side_is_the_end() -> None:
    trace = make_request("p", accepted=(3,))
    shorter = msgspec.structs.replace(without_steps(trace), output_ids=trace.output_ids[:2])
    found = find_divergences(make_generation([trace]), make_generation([shorter], arm="target-only"))[0]
    assert (found.index, found.target_id) == (2, None)
    assert found.speculative_id == trace.output_ids[2]


def test_score_divergences_when_scored_then_both_tokens_follow_the_common_prefix() -> None:
    trace = make_request("p", accepted=(3, 0, 7))
    own = make_generation([changed(trace, 5)], arm="target-only")
    found = find_divergences(make_generation([trace]), own)
    engine = Scorer()
    scored = score_divergences(engine, found, own)  # type: ignore[arg-type]
    assert engine.asked[0].prefix_ids == trace.prompt_ids + trace.output_ids[:5]
    assert scored[0].target_logprob == -float(found[0].target_id or 0)
    assert scored[0].speculative_logprob == -float(found[0].speculative_id or 0)
    assert scored[0].gap == -1.0


def test_score_divergences_when_a_text_ended_or_nobody_can_score_then_stays_unscored() -> None:
    trace = make_request("p", accepted=(3,))
    shorter = msgspec.structs.replace(without_steps(trace), output_ids=trace.output_ids[:2])
    own = make_generation([shorter], arm="target-only")
    found = find_divergences(make_generation([trace]), own)
    assert score_divergences(Scorer(), found, own) == found  # type: ignore[arg-type]
    other = make_generation([changed(trace, 2)], arm="target-only")
    found = find_divergences(make_generation([trace]), other)
    assert score_divergences(Scorer(can_score=False), found, other) == found  # type: ignore[arg-type]
