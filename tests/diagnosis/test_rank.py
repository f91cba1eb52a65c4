"""Causes follow from failed findings only, direct observations before suspicions."""

from __future__ import annotations

import msgspec
from evidence_factory import make_evidence

from dflash_doctor.checks.base import Case
from dflash_doctor.checks.catalog import run_checks
from dflash_doctor.diagnosis.rank import diagnose
from dflash_doctor.evidence import Divergence, Evidence
from dflash_doctor.metrics.compute import compute_metrics
from dflash_doctor.records import Cause


def diagnosed(evidence: Evidence) -> tuple[Cause, ...]:
    case = Case(
        evidence=evidence, metrics=compute_metrics(evidence), num_speculative_tokens=7, temperature=0.0
    )
    return diagnose(run_checks(case), case)


def test_diagnose_when_k_is_beyond_the_block_then_that_is_the_first_cause() -> None:
    evidence = make_evidence(k=12)
    assert evidence.facts is not None
    evidence = msgspec.structs.replace(evidence, facts=msgspec.structs.replace(evidence.facts, block_size=8))
    causes = diagnosed(evidence)
    assert causes[0].cause == "num-speculative-tokens-exceeds-block"
    assert causes[0].confidence == 0.9
    assert causes[0].kind == "settings"
    assert causes[0].codes == ("DF101",)
    assert causes[0].references


def test_diagnose_when_only_the_pattern_speaks_then_it_is_called_a_suspicion() -> None:
    causes = diagnosed(make_evidence(accept=0.0))
    assert causes
    assert all("suspected" in cause.summary for cause in causes)
    assert all(cause.confidence <= 0.4 for cause in causes)
    assert [cause.confidence for cause in causes] == sorted((c.confidence for c in causes), reverse=True)


def test_diagnose_when_something_speaks_against_a_suspect_then_it_is_listed() -> None:
    evidence = make_evidence(accept=0.0)
    assert evidence.facts is not None
    facts = msgspec.structs.replace(evidence.facts, lm_head_shared=True)
    causes = {cause.cause: cause for cause in diagnosed(msgspec.structs.replace(evidence, facts=facts))}
    assert causes["target-head-not-shared"].against == ("the live drafter shares the target's head",)


def test_diagnose_when_outputs_part_at_a_tie_then_names_nothing() -> None:
    tie = Divergence(
        prompt_id="r000",
        category="math",
        index=1,
        target_id=1,
        speculative_id=2,
        target_logprob=-0.7,
        speculative_logprob=-0.7,
    )
    assert diagnosed(make_evidence(divergences=(tie,))) == ()
