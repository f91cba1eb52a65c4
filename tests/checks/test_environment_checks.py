"""The environment checks are pure functions of facts: each fires on its fault alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from evidence_factory import healthy_contract, healthy_environment

from dflash_doctor.checks.base import Case, Outcome
from dflash_doctor.checks.catalog import CHECKS, entry_of, load_judge
from dflash_doctor.contract.environment import (
    ImportProblem,
    InstalledPackage,
    LockComparison,
    LockDifference,
    PinFacts,
    RegistryFacts,
    Unpinned,
    VersionConflict,
)
from dflash_doctor.contract.evidence import ContractEvidence
from dflash_doctor.contract.known_bad import KnownBadRow
from dflash_doctor.environment.facts import environment_facts
from dflash_doctor.evidence import Evidence
from dflash_doctor.records import Metrics

DF0 = [entry.code for entry in CHECKS if entry.code.startswith("DF0")]


def judge(
    code: str, contract: ContractEvidence | None = None, *, temperature: float = 0.0, **facts: Any
) -> Outcome:
    """What a check says of the healthy environment with these facts changed."""
    if contract is None:
        contract = msgspec.structs.replace(healthy_contract(), environment=healthy_environment(**facts))
    entry = entry_of(code)
    assert entry is not None
    return load_judge(entry)(
        Case(
            evidence=Evidence(contract=contract),
            metrics=Metrics(),
            num_speculative_tokens=7,
            temperature=temperature,
        )
    )


def contract_with(**changes: Any) -> ContractEvidence:
    changes.setdefault("environment", healthy_environment())
    return msgspec.structs.replace(healthy_contract(), **changes)


def with_drafter(**changes: Any) -> ContractEvidence:
    pair = healthy_contract().pair
    assert pair is not None
    assert pair.draft_config is not None
    config = msgspec.structs.replace(pair.draft_config, **changes)
    return contract_with(pair=msgspec.structs.replace(pair, draft_config=config))


@pytest.mark.parametrize("code", DF0)
def test_check_when_the_environment_is_healthy_then_passes_without_findings(code: str) -> None:
    outcome = judge(code)
    assert (outcome.verdict, outcome.findings) == ("passed", ())


@pytest.mark.parametrize("code", DF0)
def test_check_when_nobody_looked_then_says_not_checked(code: str) -> None:
    for contract in (
        contract_with(environment=None),
        contract_with(environment=None, not_collected={"environment": "OSError: gone"}),
    ):
        outcome = judge(code, contract)
        assert outcome.verdict == "skipped"
        assert outcome.reason.startswith("not checked: ")
    assert "OSError: gone" in outcome.reason


@pytest.mark.parametrize("code", DF0)
def test_check_when_nothing_is_installed_then_claims_nothing(code: str) -> None:
    outcome = judge(
        code, packages=(), registries=(), ranges_checked=0, pins=None, lock=None, known_bad_asked=0
    )
    assert (outcome.verdict, outcome.findings) == ("skipped", ())


# DF001


def test_capability_when_the_method_is_not_registered_then_fails_and_offers_close_ones() -> None:
    outcome = judge("DF001", contract_with(method="dsparks"))
    assert outcome.verdict == "failed"
    assert "such as dspark" in outcome.findings[0].expected
    assert outcome.findings[0].causes == ("backend-capability-missing",)
    assert judge("DF001", contract_with(method="DFlash")).verdict == "passed"


def test_capability_when_the_drafter_class_is_not_registered_then_fails_at_its_line() -> None:
    outcome = judge("DF001", with_drafter(architecture="DFlash3DraftModel"))
    assert outcome.verdict == "failed"
    finding = outcome.findings[0]
    assert "DFlash3DraftModel" in finding.observed
    assert "DFlash" in finding.expected
    assert finding.where.file is not None
    line = Path(finding.where.file).read_text().splitlines()[(finding.where.line or 0) - 1]
    assert '"architectures"' in line


@pytest.mark.parametrize("name", ["DFlash2DraftModel", "LlamaForCausalLM"])
def test_capability_when_the_engine_finds_the_class_with_or_without_its_prefix_then_passes(name: str) -> None:
    assert judge("DF001", with_drafter(architecture=name)).verdict == "passed"


def test_capability_when_the_engine_renames_or_needs_no_class_then_does_not_ask() -> None:
    for changes in ({"architecture": "X", "dialect": "speculators-dflash"}, {"architecture": None}):
        outcome = judge("DF001", with_drafter(**changes))
        assert outcome.verdict == "passed"
        assert "not checked: the drafter's class" in outcome.reason
    facts = healthy_environment(
        registries=(RegistryFacts(engine="transformers", version="5.19.0", methods=("dflash",)),)
    )
    outcome = judge("DF001", contract_with(served_by="transformers", environment=facts))
    assert (outcome.verdict, "of any class" in outcome.reason) == ("passed", True)


def test_capability_when_the_engine_spells_the_method_otherwise_then_knows_it() -> None:
    registry = RegistryFacts(
        engine="sglang", methods=("DFLASH", "EAGLE", "STANDALONE"), architectures=("DFlashDraftModel",)
    )
    facts = healthy_environment(registries=(registry,))
    for method in ("dflash", "mtp", "draft_model"):
        contract = contract_with(served_by="sglang", method=method, environment=facts)
        assert judge("DF001", contract).verdict == "passed"


def test_capability_when_it_cannot_be_known_then_skips_with_the_reason() -> None:
    assert "sglang is not installed here" in judge("DF001", contract_with(served_by="sglang")).reason
    broken = RegistryFacts(engine="vllm", error="it crashed (SIGSEGV)")
    outcome = judge("DF001", registries=(broken,))
    assert (outcome.verdict, "SIGSEGV" in outcome.reason) == ("skipped", True)


# DF002


def test_unpinned_when_a_requirement_gives_a_range_then_warns_with_the_exact_line() -> None:
    item = Unpinned(package="vllm", file="requirements.txt", line=3, requirement="vllm>=0.30")
    outcome = judge("DF002", pins=PinFacts(files=("requirements.txt",), unpinned=(item,)))
    assert outcome.verdict == "passed"
    finding = outcome.findings[0]
    assert finding.severity == "warning"
    assert finding.edit == "requirements.txt:3: vllm==0.32.0"
    assert (finding.where.file, finding.where.line) == ("requirements.txt", 3)


def test_unpinned_when_the_range_is_a_packages_own_metadata_then_is_a_note() -> None:
    item = Unpinned(
        package="torch", file="pyproject.toml", line=None, requirement="torch>=2", is_metadata=True
    )
    finding = judge("DF002", pins=PinFacts(unpinned=(item,))).findings[0]
    assert (finding.severity, finding.edit) == ("info", None)


def test_unpinned_when_no_file_asks_for_an_engine_then_does_not_apply() -> None:
    outcome = judge("DF002", pins=PinFacts(files=("requirements.txt",)))
    assert outcome.verdict == "skipped"
    assert not outcome.reason.startswith("not checked")
    outcome = judge("DF002", pins=PinFacts(unread=("uv.lock (not TOML)",)))
    assert outcome.reason.startswith("not checked")
    assert "uv.lock" in outcome.reason


# DF003


def difference(
    weight: str, what: str = "packages vllm", locked: Any = "0.31.0", found: Any = "0.32.0"
) -> Any:
    return LockDifference(what=what, locked=locked, found=found, weight=weight, reason="why")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("weight", "verdict", "severities"),
    [("breaking", "failed", ["error"]), ("risky", "passed", ["warning"]), ("harmless", "passed", [])],
)
def test_drift_when_something_changed_then_its_weight_decides(
    weight: str, verdict: str, severities: list[str]
) -> None:
    outcome = judge("DF003", lock=LockComparison(file="l.json", differences=(difference(weight),)))
    assert outcome.verdict == verdict
    assert [item.severity for item in outcome.findings] == severities
    if severities:
        assert outcome.findings[0].edit == "pip install vllm==0.31.0"
        assert "why" in outcome.findings[0].expected
    else:
        assert "1 harmless" in outcome.reason


@pytest.mark.parametrize(
    ("locked", "found", "edit"),
    [
        (None, "1", "unset VLLM_X"),
        ("a b", "1", "export VLLM_X='a b'"),
        ("(hidden: it looks like a secret)", "1", None),
    ],
)
def test_drift_when_a_variable_changed_then_gives_the_line_that_puts_it_back(
    locked: str | None, found: str, edit: str | None
) -> None:
    item = difference("risky", "variables VLLM_X", locked, found)
    outcome = judge("DF003", lock=LockComparison(file="l.json", differences=(item,)))
    assert outcome.findings[0].edit == edit


def test_drift_when_the_lock_cannot_be_read_then_fails_and_without_a_lock_does_not_apply() -> None:
    outcome = judge("DF003", lock=LockComparison(file="l.json", error="l.json: not JSON"))
    assert outcome.verdict == "failed"
    assert outcome.findings[0].edit == "dflash-doctor env --lock l.json"
    outcome = judge("DF003", lock=None)
    assert (outcome.verdict, "no environment lock is set" in outcome.reason) == ("skipped", True)


# DF004


def test_conflict_when_a_package_does_not_import_then_fails() -> None:
    problem = ImportProblem(
        package="torchvision",
        version="0.28.0",
        error="RuntimeError: operator torchvision::nms does not exist",
        meaning="this torchvision was built for another torch",
    )
    outcome = judge("DF004", import_problems=(problem,), imports_tried=("torchvision", "flash-attn"))
    assert outcome.verdict == "failed"
    assert "torch 2.13.0" in outcome.findings[0].observed
    assert outcome.findings[0].causes == ("environment-conflict",)


def test_conflict_when_a_range_is_broken_then_warns() -> None:
    conflict = VersionConflict(
        package="torch", version="2.12.0", required_by="vllm 0.32.0", requirement="torch==2.13.0"
    )
    outcome = judge("DF004", version_conflicts=(conflict,))
    assert (outcome.verdict, outcome.findings[0].severity) == ("passed", "warning")
    assert outcome.findings[0].edit == "pip install 'torch==2.13.0'"


def test_conflict_when_nobody_tried_an_import_then_says_so() -> None:
    outcome = judge("DF004", imports_untried=("flash-attn",), imports_tried=("torchvision",))
    assert outcome.verdict == "passed"
    assert "torchvision can be imported" in outcome.reason
    assert "not checked: whether flash-attn can be imported" in outcome.reason


# DF005


ROW = KnownBadRow(
    id="x",
    packages=("vllm",),
    engine="vllm",
    versions="<=0.32",
    bound="seen in",
    severity="error",
    failure_modes=("F1",),
    causes=("sampling-biased",),
    summary="it goes wrong",
    remedy="upgrade",
    links=("vllm-project/vllm#1",),
    upgrade="0.33",
    installed="vllm 0.32.0",
    when={"draft_sample_method": "probabilistic", "temperature": "> 0"},
)


def test_known_bad_when_version_and_features_meet_then_fails_with_links() -> None:
    facts = healthy_environment(known_bad=(ROW,))
    contract = contract_with(environment=facts, features={"draft_sample_method": "probabilistic"})
    outcome = judge("DF005", contract, temperature=0.7)
    assert outcome.verdict == "failed"
    finding = outcome.findings[0]
    assert "temperature 0.7" in finding.observed
    assert "F1" in finding.remedy
    assert "vllm-project/vllm#1" in finding.remedy
    assert finding.edit == "pip install 'vllm>=0.33'"
    assert judge("DF005", contract, temperature=0.0).verdict == "passed"


def test_known_bad_when_a_feature_is_not_known_then_leaves_the_row_open() -> None:
    outcome = judge(
        "DF005",
        contract_with(environment=healthy_environment(known_bad=(ROW,)), features={}),
        temperature=0.7,
    )
    assert (outcome.verdict, outcome.findings) == ("passed", ())
    assert "not checked: 1 row that would need to know draft_sample_method" in outcome.reason


def test_known_bad_when_another_engine_serves_then_its_rows_do_not_count() -> None:
    facts = healthy_environment(known_bad=(ROW,))
    contract = contract_with(
        environment=facts, served_by="sglang", features={"draft_sample_method": "probabilistic"}
    )
    assert judge("DF005", contract, temperature=0.7).findings == ()


# DF006


@pytest.mark.parametrize(
    ("name", "severity"), [("vllm", "warning"), ("triton", "info"), ("dflash-doctor", None)]
)
def test_development_when_a_package_is_no_release_then_the_serving_engine_warns(
    name: str, severity: str | None
) -> None:
    build = InstalledPackage(name=name, version="1.0.dev1", commit="abc", development="a development version")
    rest = tuple(item for item in healthy_environment().packages if item.name != name)
    outcome = judge("DF006", packages=(*rest, build))
    assert [item.severity for item in outcome.findings] == ([severity] if severity else [])
    if severity:
        assert "commit abc" in outcome.findings[0].observed


# All of them


def test_facts_when_taken_here_then_nothing_is_above_a_note_and_all_can_be_written(tmp_path: Path) -> None:
    facts = environment_facts(Path(__file__).resolve().parents[2], environ={}, cache=tmp_path)
    contract = contract_with(environment=facts)
    for code in DF0:
        outcome = judge(code, contract)
        assert outcome.verdict in ("passed", "skipped"), outcome.reason
        assert [item for item in outcome.findings if item.severity != "info"] == []
    text = msgspec.json.encode(facts)
    assert msgspec.json.decode(text, type=type(facts)) == facts
    assert json.loads(msgspec.json.encode(facts.without_lists()))
    assert not [item for item in facts.without_lists().registries if item.architectures]
