"""Every cause has a page in one shape, and what the pages and the checks name exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dflash_doctor
from dflash_doctor.checks.catalog import CHECKS
from dflash_doctor.checks.features_do_not_combine import COMBINATIONS
from dflash_doctor.diagnosis.catalog import PARTS, CauseEntry, causes
from dflash_doctor.environment.known_bad import known_bad_rows
from dflash_doctor.faults.catalog import FAULTS
from dflash_doctor.probes.engine_trials import ENGINE_SETTINGS

PACKAGE = Path(dflash_doctor.__file__).parent
PAGES = PACKAGE / "diagnosis" / "pages"
ENGINES = ("vLLM", "SGLang", "Transformers", "TensorRT-LLM", "llama.cpp")
REFERENCE = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*#\d+"

every_cause = pytest.mark.parametrize("cause", causes().values(), ids=lambda cause: cause.name)


def parts_of(cause: CauseEntry) -> dict[str, str]:
    """Opening (under "") and parts of a page, by name, in their order."""
    pieces = re.split(r"^\*\*([A-Z][a-z ]+)\.\*\*", cause.page, flags=re.MULTILINE)
    return {"": pieces[0].strip(), **dict(zip(pieces[1::2], map(str.strip, pieces[2::2]), strict=True))}


def items_of(part: str) -> list[str]:
    """The items of a list, each on one line."""
    return [" ".join(item.split()) for item in re.split(r"^- ", part, flags=re.MULTILINE)[1:]]


def test_pages_when_counted_then_there_is_one_for_each_cause_and_no_other() -> None:
    assert sorted(path.stem for path in PAGES.glob("*.md")) == sorted(causes())


@every_cause
def test_page_when_read_then_has_a_title_and_every_part_in_order(cause: CauseEntry) -> None:
    parts = parts_of(cause)
    assert list(parts) == ["", *PARTS]
    assert all(parts.values())
    assert cause.title
    assert not cause.title.endswith(".")


@every_cause
def test_page_when_measured_then_fits_a_screen(cause: CauseEntry) -> None:
    lines = (PAGES / f"{cause.name}.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"# {cause.title}"
    assert 15 <= len(lines) <= 35
    assert max(map(len, lines)) <= 110


@every_cause
def test_page_when_it_names_checks_then_they_exist(cause: CauseEntry) -> None:
    codes = set(re.findall(r"\bDF\d+\b", cause.page))
    assert codes <= {entry.code for entry in CHECKS}


@every_cause
def test_page_when_it_names_other_causes_then_they_exist(cause: CauseEntry) -> None:
    named = re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", cause.page)
    assert set(named) <= set(causes())
    assert cause.name not in named


@every_cause
def test_page_when_it_has_references_then_each_leads_to_a_thread(cause: CauseEntry) -> None:
    seen = parts_of(cause)["Seen in"]
    items = items_of(seen)
    assert all(re.fullmatch(rf"{REFERENCE}: .+", item) for item in items)
    assert cause.references == tuple(item.split(":")[0] for item in items)
    assert len(set(cause.references)) == len(cause.references)
    bare = re.sub(REFERENCE, "", cause.page)
    assert not re.search(r"#\d", bare), "a number without its repository"
    assert items or seen.startswith("No "), "say that nothing is known"


@every_cause
def test_page_when_something_can_be_changed_then_names_engines(cause: CauseEntry) -> None:
    items = items_of(parts_of(cause)["What to change"])
    subjects = [item.partition(":")[0] for item in items]
    assert all(subject and len(subject) < 35 for subject in subjects)
    if cause.kind in ("pair", "settings"):
        assert any(subject.startswith(ENGINES) for subject in subjects)


def test_pages_when_an_engine_is_at_fault_then_training_is_not_the_answer() -> None:
    for cause in causes().values():
        if cause.kind in ("engine", "backend"):
            assert parts_of(cause)["Training"].startswith(("Not ", "Only ", "A drafter ")), cause.name


def test_causes_when_checks_experiments_and_tables_name_them_then_they_exist() -> None:
    named = {cause for row in (*known_bad_rows(), *FAULTS) for cause in row.causes}
    named |= {row.cause for row in (*COMBINATIONS, *ENGINE_SETTINGS)}
    for folder in ("checks", "experiments", "probes", "faults"):
        for path in (PACKAGE / folder).rglob("*.py"):
            named |= set(_causes_in(path))
    assert named <= set(causes())
    assert len(named) > 40


def test_proof_when_an_experiment_names_the_cause_then_its_page_tells_so() -> None:
    codes = {"interventions": "DF405", "reproductions": "DF404"}
    for folder, code in codes.items():
        for path in (PACKAGE / "experiments" / folder).glob("*.py"):
            for name in _causes_in(path):
                assert code in parts_of(causes()[name])["How it is proven"], (path.name, name)


def test_proof_when_a_run_with_a_changed_setting_names_the_cause_then_its_page_tells_so() -> None:
    for path in (PACKAGE / "probes" / "engine_trials.py", PACKAGE / "probes" / "live_trials.py"):
        for name in _causes_in(path):
            assert "DF406" in parts_of(causes()[name])["How it is proven"], name


def test_proof_when_a_pattern_of_drafts_names_the_cause_then_its_page_tells_so() -> None:
    path = PACKAGE / "checks" / "drafts_patterned.py"
    names = set(causes()) & set(_words(ast.parse(path.read_text(encoding="utf-8"))))
    assert names
    for name in names:
        assert "DF408" in parts_of(causes()[name])["How it is proven"], name


def _causes_in(path: Path) -> Iterator[str]:
    """Names of causes in a module: what is given as `cause` or `causes`, and tuples of hyphenated words."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg in ("cause", "causes"):
            yield from (leaf for leaf in _words(node.value) if "-" in leaf)
        elif isinstance(node, ast.Tuple) and node.elts and path.parent.name == "checks":
            words = list(_words(node))
            if len(words) == len(node.elts) and all(
                re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", w) for w in words
            ):
                yield from words


def _words(node: ast.AST) -> Iterator[str]:
    for leaf in ast.walk(node):
        if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
            yield leaf.value
