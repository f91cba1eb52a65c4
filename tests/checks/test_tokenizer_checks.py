"""DF201 and DF202 judge what the comparison of the tokenizers found."""

from __future__ import annotations

from typing import Any

import pytest
from evidence_factory import make_evidence

from dflash_doctor.checks.base import Case, Outcome
from dflash_doctor.checks.catalog import CHECKS, entry_of, load_judge, run_checks
from dflash_doctor.contract.evidence import ContractEvidence
from dflash_doctor.contract.tokenizers import (
    BehaviourComparison,
    SettingDifference,
    TokenConflict,
    TokenizationDifference,
    TokenizerComparison,
    TokenizerFacts,
)
from dflash_doctor.diagnosis.rank import diagnose
from dflash_doctor.metrics.compute import compute_metrics

TARGET = TokenizerFacts(file="t/tokenizer.json", kind="BPE", num_ids=1024, last_id=1023, num_rows=1024)
DRAFT = TokenizerFacts(file="d/tokenizer.json", kind="BPE", num_ids=1024, last_id=1023, num_rows=1024)


def compared(**changes: Any) -> TokenizerComparison:
    return TokenizerComparison(
        **({"target": TARGET, "draft": DRAFT, "classification": "identical"} | changes)
    )


def case_of(comparison: TokenizerComparison | None) -> Case:
    evidence = make_evidence(contract=ContractEvidence(served_by="vllm", tokenizers=comparison))
    return Case(
        evidence=evidence, metrics=compute_metrics(evidence), num_speculative_tokens=7, temperature=0.0
    )


def judge(code: str, comparison: TokenizerComparison | None) -> Outcome:
    entry = entry_of(code)
    assert entry is not None
    return load_judge(entry)(case_of(comparison))


def parted(text: str = "00", **changes: Any) -> BehaviourComparison:
    difference = TokenizationDifference(
        text=text,
        target_ids=(36, 36),
        draft_ids=(410,),
        target_tokens=("0", "0"),
        draft_tokens=("00",),
        **changes,
    )
    return BehaviourComparison(num_texts=90, difference=difference)


SWAPPED = (
    TokenConflict(id=500, target_text=" want", draft_text=" wants"),
    TokenConflict(id=501, target_text=" wants", draft_text=None),
)


@pytest.mark.parametrize("code", ["DF201", "DF202"])
def test_check_when_nobody_looked_then_is_skipped_as_not_checked(code: str) -> None:
    assert judge(code, None).verdict == "skipped"
    evidence = make_evidence(contract=None)
    case = Case(
        evidence=evidence, metrics=compute_metrics(evidence), num_speculative_tokens=7, temperature=0.0
    )
    entry = entry_of(code)
    assert entry is not None
    outcome = load_judge(entry)(case)
    assert outcome.verdict == "skipped"
    assert outcome.reason.startswith("not checked: ")


@pytest.mark.parametrize("code", ["DF201", "DF202"])
def test_check_when_the_drafter_has_no_files_then_is_skipped_and_never_compatible(code: str) -> None:
    comparison = TokenizerComparison(target=TARGET, unchecked="the drafter has no tokenizer files")
    outcome = judge(code, comparison)
    assert (outcome.verdict, outcome.findings) == ("skipped", ())
    assert outcome.reason == "not checked: the drafter has no tokenizer files"


def test_conflict_when_ids_conflict_then_fails_with_the_first_ids_and_names_the_cause() -> None:
    comparison = compared(classification="conflicting", num_conflicting=2, conflicts=SWAPPED)
    outcome = judge("DF201", comparison)
    assert outcome.verdict == "failed"
    finding = outcome.findings[0]
    assert finding.observed == (
        "2 of 1,024 ids conflict: 500 is ' want' for the target, ' wants' for the drafter; "
        "501 is ' wants' for the target, no token for the drafter"
    )
    assert (finding.where.file, finding.where.field) == ("d/tokenizer.json", "model.vocab")
    case = case_of(comparison)
    causes = diagnose(run_checks(case), case)
    assert (causes[0].cause, causes[0].confidence) == ("tokenizer-conflict", 0.9)
    assert judge("DF202", comparison).verdict == "skipped"


def test_conflict_when_texts_hold_control_characters_then_they_are_written_out() -> None:
    hostile = (TokenConflict(id=1, target_text="\x1b[31m\n", draft_text="</script>"),)
    outcome = judge("DF201", compared(classification="conflicting", num_conflicting=1, conflicts=hostile))
    assert "'\\x1b[31m\\n'" in outcome.findings[0].observed


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "1,024 ids stand for the same tokens"),
        ({"same_file": True}, "1,024 ids stand for the same tokens"),
        (
            {
                "classification": "padding-only",
                "draft": TokenizerFacts(file="d", num_ids=1024, num_rows=1100),
            },
            "1,024 ids stand for the same tokens; the embeddings, of 1,024 and 1,100 rows, differ in unused "
            "rows only",
        ),
    ],
)
def test_conflict_when_maps_agree_then_passes_and_explains(changes: dict[str, Any], said: str) -> None:
    outcome = judge("DF201", compared(**changes))
    assert (outcome.verdict, outcome.reason, outcome.findings) == ("passed", said, ())


def test_conflict_when_one_side_has_more_then_passes_with_a_note() -> None:
    extra = (TokenConflict(id=1024, target_text="<x>", draft_text=None),)
    outcome = judge("DF201", compared(classification="suffix-added", num_target_only=1, one_sided=extra))
    assert outcome.verdict == "passed"
    assert outcome.reason == "no id stands for different texts; the target alone has 1 more"
    assert [finding.severity for finding in outcome.findings] == ["info"]
    assert "1024 is '<x>' for the target, no token for the drafter" in outcome.findings[0].observed


@pytest.mark.parametrize(
    ("side", "is_other_format", "severity", "verdict"),
    [
        ("target", False, "error", "failed"),
        ("draft", False, "warning", "skipped"),
        ("target", True, "info", "skipped"),
        ("draft", True, "info", "skipped"),
    ],
)
def test_conflict_when_a_file_is_unreadable_then_tells_it_and_does_not_pass(
    side: str, is_other_format: bool, severity: str, verdict: str
) -> None:
    broken = TokenizerFacts(file=f"{side}/tokenizer.json", problem="empty", is_other_format=is_other_format)
    changes = {"classification": None, "unchecked": "unreadable", side: broken}
    outcome = judge("DF201", compared(**changes))
    assert outcome.verdict == verdict
    assert verdict == "failed" or outcome.reason == "not checked: unreadable"
    assert [(item.severity, item.where.file) for item in outcome.findings] == [(severity, broken.file)]
    assert judge("DF202", compared(**changes)).verdict == "skipped"


def test_conflict_when_ids_lie_beyond_the_embedding_then_notes_it() -> None:
    target = TokenizerFacts(file="t", num_ids=1025, last_id=1024, num_rows=1024)
    outcome = judge("DF201", compared(target=target))
    assert outcome.verdict == "passed"
    assert [finding.severity for finding in outcome.findings] == ["info"]


@pytest.mark.parametrize("same_file", [True, False])
def test_differs_when_no_text_needed_trying_then_passes(same_file: bool) -> None:
    outcome = judge("DF202", compared(same_file=same_file))
    assert (outcome.verdict, outcome.findings) == ("passed", ())


def test_differs_when_a_text_is_split_differently_then_warns_with_both_token_lists() -> None:
    outcome = judge("DF202", compared(section_differences=("pre_tokenizer",), behaviour=parted()))
    assert outcome.verdict == "passed"
    finding = outcome.findings[0]
    assert (finding.severity, finding.causes) == ("warning", ("tokenizer-conflict",))
    assert finding.observed == (
        "'00' is ['0', '0'] (ids 36 36) for the target and ['00'] (ids 410) for the drafter; "
        "they differ in pre_tokenizer"
    )
    assert (finding.where.file, finding.where.field) == ("d/tokenizer.json", "pre_tokenizer")


@pytest.mark.parametrize("changes", [{"one_sided_token": "<x>"}, {"with_special_tokens": True}])
def test_differs_when_the_difference_is_explained_then_only_notes_it(changes: dict[str, Any]) -> None:
    outcome = judge("DF202", compared(behaviour=parted(**changes)))
    assert [finding.severity for finding in outcome.findings] == ["info"]


def test_differs_when_rules_differ_and_no_text_shows_it_then_passes_and_says_so() -> None:
    behaviour = BehaviourComparison(num_texts=439)
    outcome = judge("DF202", compared(section_differences=("decoder",), behaviour=behaviour))
    assert outcome.verdict == "passed"
    assert outcome.reason == "439 texts became the same ids, although they differ in decoder"


def test_differs_when_the_library_fails_then_is_not_checked() -> None:
    died = BehaviourComparison(unchecked="the tokenizers library died of signal 6")
    outcome = judge("DF202", compared(section_differences=("normalizer",), behaviour=died))
    assert (outcome.verdict, outcome.reason) == (
        "skipped",
        "not checked: the tokenizers library died of signal 6",
    )


def test_differs_when_settings_contradict_then_notes_each() -> None:
    settings = (SettingDifference(key="eos_token", target="<a>", draft="<b>"),)
    outcome = judge("DF202", compared(setting_differences=settings))
    assert outcome.verdict == "passed"
    assert outcome.findings[0].where.file == "d/tokenizer_config.json"
    assert outcome.findings[0].severity == "info"


def test_catalog_when_asked_for_tokenizer_checks_then_they_are_static() -> None:
    assert all(entry.static for entry in CHECKS if entry.code in ("DF201", "DF202"))


def test_differs_when_a_mark_joins_a_letter_then_it_is_written_out() -> None:
    outcome = judge("DF202", compared(behaviour=parted("a\u0301 \u0928\u092e")))
    assert outcome.findings[0].observed.startswith("'a\\u0301 \u0928\u092e' is ")
