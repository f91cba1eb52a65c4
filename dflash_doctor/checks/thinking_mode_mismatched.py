"""Thinking is on where the drafter was trained without, or the other way round

## What it checks

What the drafter's own files say of thinking (its config, its model card) against the mode in which requests
are served, and whether the target's template has a thinking switch at all, which is found by rendering with
it on and off.

## Why it matters

It is the most common report of all: 25 percent became 60 when thinking was turned off for a drafter that
was trained on non-thinking text (z-lab/dflash#133); the reverse cost two thirds of the gain with another
(z-lab/dflash#60).

## Example

    DF205 the drafter was trained without thinking, and thinking is on
      observed: README.md:31 ('non-thinking mode only'); --thinking on
      do:       --thinking off

## What to do

Serve in the mode that the drafter was trained in, or take a drafter for the mode you serve.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.contract.evidence import ContractEvidence
from dflash_doctor.contract.templates import TemplateComparison
from dflash_doctor.records import Finding, Where

_WORDS = {"off": "without thinking", "on": "with thinking"}


def judge(case: Case) -> Outcome:
    """Compare the trained mode with the served one."""
    contract = case.evidence.contract
    if contract is None or contract.templates is None:
        return skipped("not checked: the chat templates were not read")
    found = contract.templates
    served = _served(contract, found)
    findings = _switchless(contract, found)
    if found.trained_thinking is None:
        unchecked = ["the drafter's files do not say in which mode it was trained"]
        return settled(
            findings, compared=[f"requests are served with thinking {served}"], unchecked=unchecked
        )
    if served is None:
        return settled(findings, compared=[], unchecked=["in which mode the template answers by itself"])
    if served == found.trained_thinking:
        source = found.trained_thinking_source
        return settled(findings, compared=[f"served and trained {_WORDS[served]} ({source})"])
    return settled([*findings, _mismatch(contract, found, served)], compared=[])


def _served(contract: ContractEvidence, found: TemplateComparison) -> str | None:
    """The mode in force; `template` is settled by what the template does by itself."""
    if contract.thinking != "template":
        return contract.thinking
    prompts = found.target.generation_prompts if found.target is not None else {}
    alone = prompts.get("template")
    matching = [mode for mode in ("off", "on") if alone is not None and prompts.get(mode) == alone]
    return matching[0] if len(matching) == 1 else None


def _switchless(contract: ContractEvidence, found: TemplateComparison) -> list[Finding]:
    """Thinking asked for, of a template that has no switch."""
    if contract.thinking != "on" or found.target is None or found.target.has_thinking_switch is not False:
        return []
    return [
        Finding(
            code="DF205",
            severity="info",
            message="thinking is asked for, and the target's template has no switch for it",
            observed="enable_thinking true and false render the same text",
            expected="a template that reads enable_thinking",
            remedy="leave --thinking at template",
            edit="--thinking template",
            where=Where(file=found.target.file, field=found.target.field),
        )
    ]


def _mismatch(contract: ContractEvidence, found: TemplateComparison, served: str) -> Finding:
    trained = found.trained_thinking or ""
    return Finding(
        code="DF205",
        severity="error",
        message=f"the drafter was trained {_WORDS[trained]}, and thinking is {served}",
        observed=f"{found.trained_thinking_source}; --thinking {contract.thinking}",
        expected=f"requests served {_WORDS[trained]}",
        remedy=f"serve {_WORDS[trained]}, or take a drafter trained {_WORDS[served]}",
        edit=f"--thinking {trained}",
        where=Where(file=found.draft.file if found.draft is not None else None),
        causes=("thinking-mode-mismatch",),
    )
