"""Thinking is on where the drafter was trained without it, or the other way round

## What it checks

The mode that prompts are rendered in (`--thinking`, and what the target's template makes of it) is
compared with the mode that the drafter says it was trained for, in its config or in its model card. The
mode is found by rendering: whether `enable_thinking` changes anything, and which mode is the default. A
config key that disagrees is an error, a sentence of the model card a warning. Asking for a mode of a
template that has no switch is noted.

## Why it matters

It is the most common reason for poor acceptance that users report. Text inside a thinking block looks
unlike any answer: a drafter that never saw it has almost nothing accepted there. One drafter went from
25 % to 60 % acceptance when thinking was turned off, another lost two thirds of its acceptance length
without it.

## Example

    DF205 thinking is on, and the drafter was trained without it
      seen:     --thinking on; README.md: Trained on non-thinking responses only.
      expected: thinking off
      do:       render prompts with thinking off, or take a drafter trained with thinking

## What to do

Serve and measure in the drafter's own mode (`--thinking off`; in requests
`"chat_template_kwargs": {"enable_thinking": false}`), or take a drafter that was trained in yours.
"""

from __future__ import annotations

from typing import Literal

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.quoted_text import shown
from dflash_doctor.contract.templates import TemplateComparison, TemplateFacts
from dflash_doctor.records import Finding, Where

_Mode = Literal["off", "on"]

_WITH: dict[_Mode, str] = {"off": "without", "on": "with"}


def judge(case: Case) -> Outcome:
    """Compare the mode in force with the one the drafter was trained for."""
    contract = case.evidence.contract
    if contract is None or contract.templates is None:
        return skipped("not checked: nobody looked at the chat templates")
    seen, asked = contract.templates, contract.thinking
    mode = _mode_in_force(seen.target, asked)
    findings: list[Finding] = []
    compared: list[str] = []
    unchecked: list[str] = []
    if seen.target.has_thinking_switch is False and asked in ("off", "on") and mode != asked:
        findings.append(_no_switch(seen.target, asked, mode))
    if mode is None:
        unchecked.append("which thinking mode the target's chat template renders is not known")
    if seen.draft_thinking is None:
        unchecked.append("the drafter does not say whether it was trained with thinking")
    if mode is not None and seen.draft_thinking is not None:
        if mode != seen.draft_thinking:
            findings.append(_mismatch(seen, asked, mode, seen.draft_thinking))
        else:
            compared.append(f"thinking is {mode}, as the drafter says it was trained ({_source(seen)})")
    return settled(findings, compared=compared, unchecked=unchecked)


def _mode_in_force(facts: TemplateFacts, asked: str) -> _Mode | None:
    """The mode the target's prompts are in; `None` where rendering does not tell."""
    if facts.has_thinking_switch:
        if asked == "off":
            return "off"
        return "on" if asked == "on" else facts.default_thinking
    prompt = facts.generation_prompts.get("template", "")
    if "<think>" not in prompt:
        return None
    inside = prompt.rpartition("<think>")[2]
    return "off" if "</think>" in inside else "on"


def _no_switch(facts: TemplateFacts, asked: str, mode: _Mode | None) -> Finding:
    other = facts.other_thinking_switch
    observed = "enable_thinking changes no rendering"
    if mode is not None:
        observed += f"; the answer always begins with thinking {mode}"
    remedy = "use --thinking template"
    if other is not None:
        observed += f"; a variable called {other} does"
        remedy += f', and set {other} in the request: "chat_template_kwargs": {{"{other}": …}}'
    return Finding(
        code="DF205",
        severity="info",
        message=f"thinking {asked} is asked for, and the target's chat template has no such switch",
        observed=observed,
        expected="a template that knows enable_thinking",
        remedy=remedy,
        where=Where(file=facts.file, field=facts.field),
        edit="--thinking template",
    )


def _mismatch(seen: TemplateComparison, asked: str, mode: _Mode, trained: _Mode) -> Finding:
    has_switch = bool(seen.target.has_thinking_switch)
    other_drafter = f"take a drafter trained {_WITH[mode]} thinking"
    switch = f"render prompts with thinking {trained}, or {other_drafter}"
    source = seen.draft_thinking_source or ""
    return Finding(
        code="DF205",
        severity="error" if source.startswith("config.json") else "warning",
        message=f"thinking is {mode}, and the drafter was trained {_WITH[trained]} it",
        observed=f"--thinking {asked}; {_source(seen)}",
        expected=f"thinking {trained}",
        remedy=switch if has_switch else other_drafter,
        where=_where(source),
        causes=("thinking-mode-mismatch",),
        edit=f"--thinking {trained}" if has_switch else None,
    )


def _source(seen: TemplateComparison) -> str:
    """Where the drafter says it; made visible, because it is text of a file."""
    return shown(seen.draft_thinking_source or "its metadata", max_characters=200)


def _where(source: str) -> Where:
    """The file, and the key where it is one: `config.json: dflash_config.thinking = true`."""
    file, _, rest = source.partition(": ")
    key, equals, _ = rest.partition(" = ")
    return Where(file=file or None, field=key if equals and file == "config.json" else None)
