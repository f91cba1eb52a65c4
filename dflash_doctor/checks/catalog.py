"""The checks, one line each. Codes are permanent: never reused, and a removed check keeps its line.

Importing this loads no check, so that pages and tables cost nothing.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dflash_doctor.checks.base import Case, Judge
    from dflash_doctor.records import CheckRecord

FAMILIES = {
    "DF0": "environment and pins",
    "DF1": "pair contract",
    "DF2": "tokenizer and chat template",
    "DF3": "losslessness",
    "DF4": "acceptance and alignment",
    "DF5": "sampling and request parameters",
    "DF6": "engine state",
    "DF7": "speed",
    "DF8": "validity of the measurement",
    "DF9": "regression",
}


@dataclass(frozen=True)
class CheckEntry:
    """A check's code, its name (the name of the bad thing), and one sentence about it."""

    code: str
    name: str
    summary: str
    static: bool = False
    """Judges what files, packages and settings say: asked before an engine starts, and without one."""

    @property
    def module(self) -> str:
        """Where it lives."""
        return "dflash_doctor.checks." + self.name.replace("-", "_")

    @property
    def family(self) -> str:
        """What its code family is about."""
        return FAMILIES[self.code[:3]]


CHECKS: tuple[CheckEntry, ...] = (
    CheckEntry(
        "DF101",
        "num-speculative-tokens-exceeds-block",
        "more draft tokens are asked for than the drafter's block holds",
    ),
    CheckEntry("DF301", "greedy-output-differs", "greedy output is not the target's own"),
    CheckEntry("DF401", "speculation-inactive", "nothing is drafted"),
    CheckEntry("DF402", "acceptance-near-one", "almost no draft token is accepted"),
    CheckEntry(
        "DF403", "tail-positions-never-accepted", "draft positions from some index on are never accepted"
    ),
    CheckEntry("DF801", "counters-inconsistent", "the engine's numbers contradict each other"),
    CheckEntry("DF802", "degenerate-output", "output repeats itself, so its acceptance means nothing"),
    CheckEntry("DF803", "expected-data-absent", "a number that should be there is not"),
)


def entry_of(code_or_name: str) -> CheckEntry | None:
    """The check with this code or name, in any case; `None` if there is none."""
    wanted = code_or_name.strip().lower()
    return next((entry for entry in CHECKS if wanted in (entry.code.lower(), entry.name)), None)


def page_of(entry: CheckEntry) -> str:
    """The check's page: its module's docstring, read without importing it."""
    spec = importlib.util.find_spec(entry.module)
    assert spec is not None, "every line of the catalog has a module; a test checks it"
    assert spec.origin is not None, "it is a file"
    return ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""


def load_judge(entry: CheckEntry) -> Judge:
    """The check's function."""
    judge: Judge = importlib.import_module(entry.module).judge
    return judge


def run_checks(case: Case, entries: Sequence[CheckEntry] = CHECKS) -> tuple[CheckRecord, ...]:
    """What every check says of a case, in catalog order; a check that raises is `errored`, not the run."""
    return tuple(_run_one(entry, case) for entry in entries)


def _run_one(entry: CheckEntry, case: Case) -> CheckRecord:
    from dflash_doctor.records import CheckRecord

    try:
        outcome = load_judge(entry)(case)
    except Exception as error:
        return CheckRecord(
            code=entry.code,
            name=entry.name,
            family=entry.family,
            verdict="errored",
            reason=f"the check itself failed: {type(error).__name__}: {error}",
        )
    return CheckRecord(
        code=entry.code,
        name=entry.name,
        family=entry.family,
        verdict=outcome.verdict,
        reason=outcome.reason,
        findings=outcome.findings,
    )
