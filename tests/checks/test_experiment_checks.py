"""Checks that rest on experiments: what fails them, what only warns, what they leave open."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from evidence_factory import make_evidence

from dflash_doctor.checks import (
    context_ignored,
    drafter_set_wrong,
    drafts_patterned,
    engine_below_reference,
    engine_setting_costs_acceptance,
)
from dflash_doctor.checks.base import Case, Outcome
from dflash_doctor.checks.catalog import run_checks
from dflash_doctor.diagnosis.rank import diagnose
from dflash_doctor.evidence import Evidence
from dflash_doctor.metrics.compute import compute_metrics
from dflash_doctor.trials import ExperimentEvidence, ReferenceEvidence, ReferenceText, Trial, TrialCounts

COUNT = 40


def texts(*, engine: float = 1.0, equal: float = 0.99, shuffled: float = 3.0, accepted: int = 3) -> Any:
    return tuple(
        ReferenceText(
            prompt_id=f"p{index}",
            category="math",
            num_prompt_tokens=10,
            accepted=(accepted,) * 40,
            steps=(accepted,) * (10 + index % 5),
            steps_shuffled=round((10 + index % 5) * shuffled) + index % 3 - 1,
            target_equal=40,
            num_answer_tokens=41,
            engine_steps=round((10 + index % 5) * engine),
            engine_equal=round(70 * equal) - index % 2,
            engine_compared=70,
        )
        for index in range(COUNT)
    )


def trial(
    kind: str, *, factor: float, cause: str = "rotary-theta", measure: str = "verify-steps", **more: Any
) -> Trial:
    names = tuple(f"p{index}" for index in range(COUNT))
    before = tuple(20 + index % 6 for index in range(COUNT))
    after = tuple(round(value * factor) for value in before)
    sizes: dict[str, Any] = {}
    if measure == "equal-drafts":
        before = tuple(900 + index % 5 for index in range(COUNT))
        after = tuple(min(1000, round(value * factor)) for value in before)
        sizes = {"size_before": (1000,) * COUNT, "size_after": (1000,) * COUNT}
    if measure == "acceptance":
        sizes = {"size_before": (10,) * COUNT, "size_after": tuple(round(10 * factor) for _ in range(COUNT))}
        after = before
    counts = TrialCounts(prompt_ids=names, before=before, after=after, **sizes)
    return Trial(
        name=f"{kind} {cause}",
        kind=kind,  # type: ignore[arg-type]
        cause=cause,
        change="a -> b",
        measure=measure,  # type: ignore[arg-type]
        screening=counts,
        confirmation=counts,
        remedy="set rope_parameters.rope_theta = 10000 in draft/config.json",
        **more,
    )


def case_of(
    *trials: Trial, evidence: Evidence | None = None, reference: dict[str, Any] | None = None, **of: Any
) -> Case:
    found = ExperimentEvidence(
        reference=ReferenceEvidence(
            reader="vllm",
            device="cpu",
            dtype="float32",
            num_draft_tokens=7,
            texts=texts(**of),
            **(reference or {}),
        ),
        trials=trials,
    )
    whole = msgspec.structs.replace(evidence or make_evidence(), experiments=found)
    return Case(evidence=whole, metrics=compute_metrics(whole), num_speculative_tokens=7, temperature=0.0)


def causes_of(outcome: Outcome) -> list[tuple[str, ...]]:
    return [finding.causes for finding in outcome.findings]


def test_engine_below_reference_when_it_takes_more_steps_then_names_the_defect() -> None:
    shown = trial("reproduction", factor=1.09, cause="causal-flag", measure="equal-drafts")
    outcome = engine_below_reference.judge(case_of(shown, engine=1.2, equal=0.9))
    assert outcome.verdict == "failed"
    assert causes_of(outcome) == [("causal-flag",)]
    assert "reproduces 98" in outcome.findings[0].remedy


def test_engine_below_reference_when_a_defect_is_there_and_costs_little_then_warns() -> None:
    shown = trial("reproduction", factor=1.09, cause="draft-context-key-norm", measure="equal-drafts")
    outcome = engine_below_reference.judge(case_of(shown, equal=0.92))
    assert outcome.verdict == "passed"
    assert [finding.severity for finding in outcome.findings] == ["warning"]


def test_engine_below_reference_when_the_engine_is_as_good_then_passes() -> None:
    outcome = engine_below_reference.judge(case_of())
    assert (outcome.verdict, outcome.findings) == ("passed", ())


def test_drafter_set_wrong_when_a_change_helps_then_fails_with_the_edit() -> None:
    outcome = drafter_set_wrong.judge(case_of(trial("intervention", factor=0.8)))
    assert outcome.verdict == "failed"
    assert causes_of(outcome) == [("rotary-theta",)]
    assert outcome.findings[0].edit == "set rope_parameters.rope_theta = 10000 in draft/config.json"
    assert outcome.findings[0].numbers["explained"] == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("factor", [1.0, 1.4])
def test_drafter_set_wrong_when_nothing_helps_then_passes(factor: float) -> None:
    outcome = drafter_set_wrong.judge(case_of(trial("intervention", factor=factor)))
    assert (outcome.verdict, outcome.findings) == ("passed", ())


def test_engine_setting_when_one_at_a_time_helps_then_fails_and_a_little_thinking_does_not() -> None:
    alone = trial("engine-run", factor=0.5, cause="batch-dependent-acceptance", measure="acceptance")
    outcome = engine_setting_costs_acceptance.judge(case_of(alone))
    assert causes_of(outcome) == [("batch-dependent-acceptance",)]
    thinking = trial("traffic", factor=0.9, cause="thinking-mode-mismatch", measure="acceptance")
    assert engine_setting_costs_acceptance.judge(case_of(thinking)).verdict == "passed"
    assert engine_setting_costs_acceptance.judge(case_of()).verdict == "skipped"


def test_context_ignored_when_order_does_not_matter_then_fails() -> None:
    outcome = context_ignored.judge(case_of(shuffled=1.0, accepted=0))
    assert causes_of(outcome) == [("wrong-drafter-for-target",)]
    assert context_ignored.judge(case_of(shuffled=2.0, accepted=0)).verdict == "passed"
    assert context_ignored.judge(case_of(shuffled=1.0, accepted=3)).verdict == "passed"
    wrong = trial("intervention", factor=0.3)
    assert context_ignored.judge(case_of(wrong, shuffled=1.0, accepted=0)).verdict == "skipped"
    zero = context_ignored.judge(case_of(reference={"zero_tensors": ("fc.weight",)}))
    assert causes_of(zero) == [("draft-weights-not-loaded",)]


def test_checks_when_no_experiment_was_made_then_are_skipped() -> None:
    evidence = make_evidence()
    case = Case(
        evidence=evidence, metrics=compute_metrics(evidence), num_speculative_tokens=7, temperature=0.0
    )
    for check in (
        engine_below_reference,
        drafter_set_wrong,
        context_ignored,
        engine_setting_costs_acceptance,
    ):
        assert check.judge(case).verdict == "skipped"


def empty_from(position: int) -> Evidence:
    """Drafts of token 0 from a position on."""
    evidence = make_evidence()
    assert evidence.speculative is not None
    requests = tuple(
        msgspec.structs.replace(
            request,
            steps=tuple(
                msgspec.structs.replace(step, draft_ids=(0,) * len(step.draft_ids or ()))
                if (step.position or 0) >= position
                else step
                for step in request.steps or ()
            ),
        )
        for request in evidence.speculative.requests
    )
    return msgspec.structs.replace(
        evidence, speculative=msgspec.structs.replace(evidence.speculative, requests=requests)
    )


def test_drafts_patterned_when_drafts_are_empty_then_names_the_pattern() -> None:
    everywhere = drafts_patterned.judge(case_of(evidence=empty_from(0)))
    assert causes_of(everywhere) == [("draft-dtype-overflow",)]
    healthy = drafts_patterned.judge(case_of())
    assert healthy.verdict == "passed"
    places = sorted(
        step.position or 0
        for request in (make_evidence().speculative or pytest.fail("no pass")).requests
        for step in request.steps or ()
    )
    middle = places[len(places) // 2]
    late = drafts_patterned.judge(case_of(evidence=empty_from(middle)))
    assert causes_of(late) == [("draft-max-length",)]


def test_drafts_patterned_when_numbers_are_not_finite_then_says_where() -> None:
    outcome = drafts_patterned.judge(case_of(reference={"num_non_finite_states": 12}))
    assert causes_of(outcome) == [("draft-dtype-overflow",)]
    assert "12 numbers of the target's hidden states" in outcome.reason


def test_drafts_patterned_when_the_live_head_is_another_than_the_targets_then_says_so() -> None:
    evidence = make_evidence()
    assert evidence.facts is not None
    facts = msgspec.structs.replace(evidence.facts, lm_head_shared=False)
    from dflash_doctor.contract.evidence import ContractEvidence
    from dflash_doctor.contract.pair import Checkpoint, PairContract, Tensor

    def with_tensors(*names: str) -> Case:
        pair = PairContract(
            target=Checkpoint(role="target", name="t"),
            draft=Checkpoint(
                role="draft", name="d", tensors=tuple(Tensor(name, "BF16", (8, 8)) for name in names)
            ),
        )
        contract = ContractEvidence(served_by="vllm", pair=pair)
        return case_of(evidence=msgspec.structs.replace(evidence, facts=facts, contract=contract))

    assert causes_of(drafts_patterned.judge(with_tensors("fc.weight"))) == [("target-head-not-shared",)]
    assert drafts_patterned.judge(with_tensors("fc.weight", "lm_head.weight")).verdict == "passed"


def test_diagnose_when_two_causes_are_proven_then_the_one_that_explains_more_comes_first() -> None:
    wrong_taps = trial("intervention", factor=0.6, cause="target-layer-ids-shifted")
    key_norm = trial("reproduction", factor=1.09, cause="draft-context-key-norm", measure="equal-drafts")
    case = case_of(wrong_taps, key_norm, engine=1.1, equal=0.9)
    named = diagnose(run_checks(case), case)
    assert [cause.cause for cause in named[:2]] == ["target-layer-ids-shifted", "draft-context-key-norm"]
    assert named[0].confidence == 0.95


def test_diagnose_when_every_suspect_was_tried_and_none_fits_then_says_what_remains() -> None:
    evidence = make_evidence(accept=0.0)
    suspects = ("rotary-theta", "mask-token-wrong", "rotary-layout", "rotary-partial-factor")
    tried = [trial("intervention", factor=1.3, cause=cause) for cause in suspects]
    case = case_of(*tried, evidence=evidence)
    named = diagnose(run_checks(case), case)
    assert not {cause.cause for cause in named} & set(suspects)
