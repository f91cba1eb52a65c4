"""Each check fires on the bad thing it is named for, is silent next to it, and skips what it cannot know."""

from __future__ import annotations

from typing import Any

import msgspec
from evidence_factory import make_evidence, make_generation, make_request, without_steps

from dflash_doctor.checks.base import Case, CheckLimits
from dflash_doctor.checks.catalog import entry_of, load_judge
from dflash_doctor.evidence import Divergence, Evidence, Missing
from dflash_doctor.metrics.compute import compute_metrics


def judge(code: str, evidence: Evidence, *, temperature: float = 0.0, k: int | None = 7) -> Any:
    entry = entry_of(code)
    assert entry is not None
    case = Case(
        evidence=evidence,
        metrics=compute_metrics(evidence),
        num_speculative_tokens=k,
        temperature=temperature,
        limits=CheckLimits(),
    )
    return load_judge(entry)(case)


def facts(evidence: Evidence, **changes: Any) -> Evidence:
    assert evidence.facts is not None
    return msgspec.structs.replace(evidence, facts=msgspec.structs.replace(evidence.facts, **changes))


# DF101


def test_exceeds_block_when_k_is_beyond_the_block_then_fails_with_the_right_k() -> None:
    evidence = facts(make_evidence(k=12, accept=0.6), block_size=8, num_spec_tokens=12)
    outcome = judge("DF101", evidence)
    assert outcome.verdict == "failed"
    finding = outcome.findings[0]
    assert finding.remedy == "set num_speculative_tokens to 7"
    assert "positions 7 to 11" in finding.observed
    assert finding.causes == ("num-speculative-tokens-exceeds-block",)


def test_exceeds_block_when_k_fills_the_block_then_passes() -> None:
    assert judge("DF101", make_evidence()).verdict == "passed"
    assert judge("DF101", facts(make_evidence(), block_size=16)).verdict == "passed"


def test_exceeds_block_when_it_cannot_know_then_skips() -> None:
    assert judge("DF101", facts(make_evidence(), block_size=None)).verdict == "skipped"
    assert judge("DF101", facts(make_evidence(), method="mtp")).verdict == "skipped"
    assert judge("DF101", make_evidence(facts=None, contract=None)).verdict == "skipped"


# DF301


def parted(own: float | None, other: float | None, **changes: Any) -> Divergence:
    fields = {
        "prompt_id": "r000",
        "category": "math",
        "index": 3,
        "target_id": 20,
        "speculative_id": 21,
        "target_logprob": own,
        "speculative_logprob": other,
        "source": "accepted",
    }
    return Divergence(**(fields | changes))


def test_output_differs_when_the_gap_is_large_then_fails_and_shows_both_tokens() -> None:
    outcome = judge("DF301", make_evidence(divergences=(parted(-0.02, -9.81),)))
    assert outcome.verdict == "failed"
    observed = outcome.findings[0].observed
    assert "r000 at output token 3" in observed
    assert "'t20' (ln p -0.02)" in observed
    assert "'t21' (ln p -9.81)" in observed
    assert "an accepted token" in observed


def test_output_differs_when_the_gap_is_noise_then_passes_and_says_so() -> None:
    outcome = judge("DF301", make_evidence(divergences=(parted(-0.69, -0.72),)))
    assert outcome.verdict == "passed"
    assert outcome.findings[0].severity == "info"
    assert outcome.findings[0].causes == ("numeric-tie",)


def test_output_differs_when_the_target_prefers_the_speculative_token_then_fails() -> None:
    outcome = judge("DF301", make_evidence(divergences=(parted(-9.0, -0.1),)))
    assert outcome.verdict == "failed"
    assert "target-only text" in outcome.findings[0].message


def test_output_differs_when_scores_are_missing_then_is_inconclusive() -> None:
    assert judge("DF301", make_evidence(divergences=(parted(None, None),))).verdict == "inconclusive"


def test_output_differs_when_a_lossy_mode_is_on_then_names_it_first() -> None:
    evidence = facts(make_evidence(divergences=(parted(-0.1, -5.0),)), lossy_settings=("x=synthetic",))
    assert judge("DF301", evidence).findings[0].causes[0] == "lossy-acceptance-configured"


def test_output_differs_when_all_is_equal_then_passes_without_findings() -> None:
    outcome = judge("DF301", make_evidence())
    assert (outcome.verdict, outcome.findings) == ("passed", ())


def test_output_differs_when_it_cannot_be_asked_then_skips() -> None:
    assert judge("DF301", make_evidence(), temperature=0.7).verdict == "skipped"
    assert judge("DF301", make_evidence(target_only=None, divergences=None)).verdict == "skipped"


# DF401


def test_inactive_when_nothing_was_drafted_then_fails() -> None:
    silent = [make_request(f"p{i}", accepted=(), output_ids=(1, 2, 3, 4)) for i in range(3)]
    outcome = judge("DF401", make_evidence(speculative=make_generation(silent)))
    assert outcome.verdict == "failed"
    assert outcome.findings[0].causes == ("speculation-inactive",)


def test_inactive_when_one_draft_was_made_then_passes() -> None:
    assert judge("DF401", make_evidence(num_requests=1, steps_per_request=1)).verdict == "passed"


def test_inactive_when_every_answer_is_one_token_then_skips() -> None:
    short = [make_request("p", accepted=())]
    assert judge("DF401", make_evidence(speculative=make_generation(short))).verdict == "skipped"
    assert judge("DF401", make_evidence(speculative=None)).verdict == "skipped"


# DF402


def test_near_one_when_nothing_is_accepted_then_fails_with_suspects() -> None:
    outcome = judge("DF402", make_evidence(accept=0.0))
    assert outcome.verdict == "failed"
    assert outcome.findings[0].causes[0] == "draft-weights-not-loaded"


def test_near_one_when_drafts_read_lowest_ids_then_suspects_the_dtype() -> None:
    requests = []
    for index in range(8):
        request = make_request(f"p{index}", accepted=(0,) * 20)
        steps = tuple(msgspec.structs.replace(s, draft_ids=tuple(range(7))) for s in request.steps or ())
        requests.append(msgspec.structs.replace(request, steps=steps))
    outcome = judge("DF402", make_evidence(speculative=make_generation(requests)))
    assert outcome.findings[0].causes == ("draft-dtype-overflow",)
    assert "bfloat16" in outcome.findings[0].remedy


def test_near_one_when_only_the_first_position_lives_then_suspects_mask_and_rotary() -> None:
    walks = [[1, 0, 0, 0, 0] * 4 for _ in range(8)]
    requests = [make_request(f"p{i}", accepted=walk) for i, walk in enumerate(walks)]
    evidence = make_evidence(speculative=make_generation(requests))
    case = Case(
        evidence=evidence,
        metrics=compute_metrics(evidence),
        num_speculative_tokens=7,
        temperature=0.0,
        limits=CheckLimits(min_acceptance_length=1.3),
    )
    entry = entry_of("DF402")
    assert entry is not None
    outcome = load_judge(entry)(case)
    assert outcome.verdict == "failed"
    assert outcome.findings[0].causes[0] == "mask-token-wrong"


def test_near_one_when_acceptance_is_clearly_above_then_passes() -> None:
    assert judge("DF402", make_evidence(accept=0.3)).verdict == "passed"


def test_near_one_when_the_interval_holds_the_limit_then_is_inconclusive_and_says_how_much_more() -> None:
    walks = [[1] * 5 + [0] * 15 if i == 0 else [0] * 19 + [1] for i in range(5)]
    requests = [make_request(f"p{i}", accepted=walk) for i, walk in enumerate(walks)]
    outcome = judge("DF402", make_evidence(speculative=make_generation(requests)))
    assert outcome.verdict == "inconclusive"
    assert "more prompts" in outcome.reason


def test_near_one_when_there_is_too_little_data_then_is_inconclusive() -> None:
    assert (
        judge("DF402", make_evidence(num_requests=2, steps_per_request=3, accept=0.0)).verdict
        == "inconclusive"
    )


def test_near_one_when_nothing_was_drafted_then_leaves_it_to_df401() -> None:
    silent = make_generation([make_request("p", accepted=(), output_ids=(1, 2, 3))])
    assert judge("DF402", make_evidence(speculative=silent)).verdict == "skipped"


# DF403


def walks_capped_at(cap: int, *, num_requests: int = 20) -> Evidence:
    evidence = make_evidence(num_requests=num_requests, accept=0.9, k=cap)
    wide = []
    for request in evidence.speculative.requests:  # type: ignore[union-attr]
        wide.append(
            make_request(request.prompt_id, accepted=[s.num_accepted for s in request.steps or ()], k=15)
        )
    return make_evidence(speculative=make_generation(wide))


def test_dead_tail_when_positions_beyond_the_block_are_zero_then_names_the_first() -> None:
    outcome = judge("DF403", walks_capped_at(7))
    assert outcome.verdict == "failed"
    assert outcome.findings[0].remedy == "set num_speculative_tokens to 7"
    assert "positions 7 to 14" in outcome.findings[0].observed


def test_dead_tail_when_the_last_position_lives_then_passes() -> None:
    assert judge("DF403", make_evidence(accept=0.9)).verdict == "passed"


def test_dead_tail_when_few_steps_got_there_then_is_inconclusive() -> None:
    outcome = judge("DF403", walks_capped_at(7, num_requests=1))
    assert outcome.verdict == "inconclusive"
    assert "135 tries" in outcome.reason


def test_dead_tail_when_nothing_lives_or_nothing_is_known_then_skips() -> None:
    assert judge("DF403", make_evidence(accept=0.0)).verdict == "skipped"
    totals = make_generation([make_request(steps=None)])
    assert judge("DF403", make_evidence(speculative=totals)).verdict == "skipped"


# DF801


def test_inconsistent_when_an_average_counts_the_prefill_token_then_fails() -> None:
    request = make_request(accepted=(3, 0, 7))
    counters = msgspec.structs.replace(request.counters, mean_acceptance_length=14 / 3)
    lying = msgspec.structs.replace(request, counters=counters)
    outcome = judge("DF801", make_evidence(speculative=make_generation([lying])))
    assert outcome.verdict == "failed"
    assert "acceptance-length-from-counts" in outcome.findings[0].observed


def test_inconsistent_when_all_agrees_then_passes() -> None:
    assert judge("DF801", make_evidence()).verdict == "passed"


def test_inconsistent_when_there_are_no_counters_then_skips() -> None:
    bare = make_generation([make_request(steps=None, counters=None)])
    assert judge("DF801", make_evidence(speculative=bare, speculative_timing=None)).verdict == "skipped"
    assert judge("DF801", make_evidence(speculative=None, speculative_timing=None)).verdict == "skipped"


# DF802


def looping(prompt_id: str) -> Any:
    request = make_request(prompt_id, accepted=(7,) * 10)
    return msgspec.structs.replace(request, output_ids=(7,) * len(request.output_ids))


def degenerate(num_looping: int, *, alone: bool) -> Evidence:
    requests = [looping(f"p{i}") if i < num_looping else make_request(f"p{i}") for i in range(5)]
    own = requests if alone else [make_request(f"p{i}", accepted=(7,) * 10) for i in range(5)]
    return make_evidence(
        speculative=make_generation(requests),
        target_only=make_generation([without_steps(item) for item in own], arm="target-only"),
    )


def test_degenerate_when_most_of_a_category_loops_then_fails() -> None:
    outcome = judge("DF802", degenerate(3, alone=True))
    assert outcome.verdict == "failed"
    assert "the target alone repeats as well" in outcome.findings[0].remedy


def test_degenerate_when_only_speculation_loops_then_blames_the_engine() -> None:
    assert "only with speculation" in judge("DF802", degenerate(3, alone=False)).findings[0].remedy


def test_degenerate_when_a_few_loop_then_passes_with_a_warning() -> None:
    outcome = judge("DF802", degenerate(2, alone=True))
    assert outcome.verdict == "passed"
    assert outcome.findings[0].severity == "warning"
    assert outcome.findings[0].where.prompt_id == "p0"


def test_degenerate_when_texts_vary_then_passes_clean() -> None:
    outcome = judge("DF802", make_evidence())
    assert (outcome.verdict, outcome.findings) == ("passed", ())


def test_degenerate_when_a_long_text_has_few_token_pairs_then_is_void() -> None:
    request = make_request("p0")
    loop = msgspec.structs.replace(request, output_ids=(1, 2, 3) * 40)
    assert judge("DF802", make_evidence(speculative=make_generation([loop]))).verdict == "failed"


# DF803


def test_absent_when_promised_data_is_missing_then_fails() -> None:
    lost = Missing(what="token-level data", why="no rejection sampler")
    outcome = judge("DF803", make_evidence(missing=(lost,)))
    assert outcome.verdict == "failed"
    assert outcome.findings[0].observed == "token-level data: no rejection sampler"


def test_absent_when_nobody_promised_it_then_is_a_note() -> None:
    note = Missing(what="answers", why="too long", expected=False)
    outcome = judge("DF803", make_evidence(missing=(note,)))
    assert outcome.verdict == "passed"
    assert outcome.findings[0].severity == "info"


def test_absent_when_everything_came_then_passes() -> None:
    assert judge("DF803", make_evidence()).verdict == "passed"
    assert judge("DF803", Evidence()).verdict == "skipped"
