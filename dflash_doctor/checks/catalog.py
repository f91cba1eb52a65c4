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
        "DF001",
        "backend-capability-missing",
        "the installed engine lacks the method or the drafter's class",
        static=True,
    ),
    CheckEntry(
        "DF002",
        "backend-version-unpinned",
        "an engine package is asked for without an exact version",
        static=True,
    ),
    CheckEntry(
        "DF003", "environment-drifted-from-lock", "this environment is not the one in the lock", static=True
    ),
    CheckEntry("DF004", "environment-conflict", "installed packages do not work together", static=True),
    CheckEntry(
        "DF005",
        "known-bad-version",
        "an installed version is known to go wrong with what is in use",
        static=True,
    ),
    CheckEntry("DF006", "development-build", "an engine package is a development build", static=True),
    CheckEntry(
        "DF101",
        "num-speculative-tokens-exceeds-block",
        "more draft tokens are asked for than the drafter's block holds",
        static=True,
    ),
    CheckEntry(
        "DF102",
        "checkpoint-unreadable",
        "a file of the checkpoint is damaged, missing or not what it should be",
        static=True,
    ),
    CheckEntry(
        "DF103",
        "target-layer-ids-missing",
        "the draft config names no target layers, so an engine guesses them",
        static=True,
    ),
    CheckEntry(
        "DF104",
        "target-layer-ids-out-of-range",
        "a tap points past the target's last layer, or is listed twice",
        static=True,
    ),
    CheckEntry(
        "DF105",
        "target-layer-ids-misread",
        "the engine reads other target layers than the drafter was trained on",
        static=True,
    ),
    CheckEntry(
        "DF106",
        "feature-width-mismatch",
        "the feature projection does not fit taps and target width",
        static=True,
    ),
    CheckEntry("DF107", "wrong-target", "the drafter was made for another target", static=True),
    CheckEntry(
        "DF108", "draft-vocab-map-broken", "a reduced draft vocabulary without a usable table", static=True
    ),
    CheckEntry(
        "DF109",
        "draft-head-unset",
        "no output head for the drafter, or sizes that leave it unset",
        static=True,
    ),
    CheckEntry(
        "DF110", "draft-head-ignored", "the drafter's own head is replaced by the target's", static=True
    ),
    CheckEntry(
        "DF111", "embedding-scale-ignored", "a scale or cap the drafter needs is not applied", static=True
    ),
    CheckEntry(
        "DF112",
        "quantized-head-unsupported",
        "the selector cannot read the target's quantised head",
        static=True,
    ),
    CheckEntry(
        "DF113", "rotary-part-misread", "another part of each head is rotated than in training", static=True
    ),
    CheckEntry(
        "DF114", "rotary-layout-misread", "the rotary layout is not the trained one, or unknown", static=True
    ),
    CheckEntry(
        "DF115",
        "rotary-theta-lost",
        "the base of the rotary frequencies is lost, doubled or wrong",
        static=True,
    ),
    CheckEntry(
        "DF116",
        "draft-context-too-short",
        "sequences may grow past the drafter's position limit",
        static=True,
    ),
    CheckEntry(
        "DF117",
        "layer-types-inconsistent",
        "layer types or windows contradict each other or are lost",
        static=True,
    ),
    CheckEntry(
        "DF118", "causality-misread", "another causality inside the block than in training", static=True
    ),
    CheckEntry(
        "DF119", "anchor-layout-misread", "the anchor slot is taken for a prediction, or is not", static=True
    ),
    CheckEntry("DF120", "engine-refuses-drafter", "the engine does not start with this drafter", static=True),
    CheckEntry("DF121", "dflash2-served-as-dflash", "a DFlash2 drafter would be run as DFlash", static=True),
    CheckEntry("DF122", "draft-dtype-narrower", "the drafter would run in float16", static=True),
    CheckEntry("DF123", "draft-tensors-unmapped", "tensors are missing, or nobody loads them", static=True),
    CheckEntry(
        "DF124",
        "draft-quantization-inherited",
        "the drafter would be built under the target's quantisation",
        static=True,
    ),
    CheckEntry(
        "DF125",
        "target-features-rotated",
        "the target's quantisation rotates what the drafter reads",
        static=True,
    ),
    CheckEntry("DF126", "acceptance-not-exact", "acceptance is set to be lossy or simulated", static=True),
    CheckEntry(
        "DF127", "features-do-not-combine", "settings that do not work together with speculation", static=True
    ),
    CheckEntry(
        "DF128",
        "attention-backend-unfit",
        "the attention backend cannot run this drafter exactly",
        static=True,
    ),
    CheckEntry("DF129", "revision-unpinned", "a hub id is used without a commit", static=True),
    CheckEntry(
        "DF130", "recurrent-target", "the target keeps a running state that must be rolled back", static=True
    ),
    CheckEntry(
        "DF131",
        "mask-token-unfit",
        "the mask token is missing, special, ordinary or out of range",
        static=True,
    ),
    CheckEntry("DF132", "method-unfit", "the method is not the one the drafter was made for", static=True),
    CheckEntry("DF201", "token-ids-conflict", "target and drafter map ids to different tokens", static=True),
    CheckEntry("DF202", "tokenization-differs", "the drafter's tokenizer cuts text differently", static=True),
    CheckEntry("DF203", "chat-template-differs", "the templates render differently", static=True),
    CheckEntry("DF204", "chat-template-fails", "a chat template does not render", static=True),
    CheckEntry(
        "DF205",
        "thinking-mode-mismatched",
        "thinking mode is not the trained one",
        static=True,
    ),
    CheckEntry("DF301", "greedy-output-differs", "greedy output is not the target's own"),
    CheckEntry("DF401", "speculation-inactive", "nothing is drafted"),
    CheckEntry("DF402", "acceptance-near-one", "almost no draft token is accepted"),
    CheckEntry(
        "DF403", "tail-positions-never-accepted", "draft positions from some index on are never accepted"
    ),
    CheckEntry("DF404", "engine-below-reference", "the engine drafts worse than the drafter's files allow"),
    CheckEntry("DF405", "drafter-set-wrong", "the drafter accepts more with another setting"),
    CheckEntry(
        "DF406",
        "engine-setting-costs-acceptance",
        "the engine accepts more when it is asked or set otherwise",
    ),
    CheckEntry("DF407", "context-ignored", "the drafts do not depend on the target's hidden states"),
    CheckEntry("DF408", "drafts-patterned", "the drafts follow a pattern that no working drafter makes"),
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
    return tuple(failing_on(_run_one(entry, case), case.limits.fail_on) for entry in entries)


def failing_on(check: CheckRecord, fail_on: str) -> CheckRecord:
    """The check, failed where a warning is to count as an error and it has one."""
    import msgspec

    warned = [finding.message for finding in check.findings if finding.severity == "warning"]
    if fail_on != "warning" or not warned or check.verdict == "failed":
        return check
    return msgspec.structs.replace(check, verdict="failed", reason="; ".join(dict.fromkeys(warned)))


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
