"""The drafter's tokenizer splits text differently from the target's

## What it checks

Where ids stand for the same text on both sides, whether text also becomes the same ids: normaliser,
pre-tokeniser, merges, the flags of added tokens and what is put around a text. A battery of texts (scripts,
combining marks, runs of spaces, digits, code, emoji, control characters, special-token strings inside user
text) and generated ones go through both tokenizers, and the smallest text on which they part is shown.
Nothing is tried where nothing that could matter differs.

## Why it matters

Engines tokenise with the target's tokenizer only, so this breaks no request and no output. But the
drafter's files are what it was trained with, as far as anyone can tell: when they cut `2026` into `202` and
`6` and the target into four digits, the drafter has never seen the sequences that it is asked to continue,
and acceptance is low on just that kind of text. Or the files are a stale copy; acceptance by category tells
which. So it warns, and never fails a run.

## Example

    DF202 the drafter's tokenizer splits text differently
      seen:     '00' is ['0', '0'] (ids 36 36) for the target and ['00'] (ids 410) for the drafter;
                pre_tokenizer differs
      expected: the same ids from both
      do:       measure acceptance on such text; if it is low, train with the target's tokenizer

## What to do

If the drafter's tokenizer files were converted or re-saved by another version, replace them with the
target's and the difference is gone. If the drafter was trained with them, tokenise its training data with
the target's tokenizer and train again. A token that only one side has is explained by DF201.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from dflash_doctor.checks.base import Case, Outcome, passed, settled, skipped
from dflash_doctor.checks.quoted_text import quoted
from dflash_doctor.contract.tokenizers import TokenizationDifference, TokenizerComparison
from dflash_doctor.records import Finding, Severity, Where

_CODE = "DF202"
_MAX_TOKENS = 8


def judge(case: Case) -> Outcome:
    """Judge what the texts showed."""
    contract = case.evidence.contract
    found = contract.tokenizers if contract is not None else None
    if found is None:
        return skipped("not checked: nobody looked at the tokenizer files")
    if found.classification is None:
        return skipped(f"not checked: {found.unchecked}")
    if found.classification == "conflicting":
        return skipped("not checked: the ids conflict (DF201), so no two texts could agree")
    behaviour = found.behaviour
    settings = list(_settings(found))
    if behaviour is None:
        same = "the same file" if found.same_file else "the files differ in nothing that splits text"
        return passed(f"both split text alike: {same}", settings)
    findings = [*_difference(found), *settings]
    compared = []
    if behaviour.num_texts and behaviour.difference is None and not behaviour.unchecked:
        compared.append(f"{behaviour.num_texts} texts became the same ids" + _although(found))
    elif behaviour.difference is not None:
        compared.append(f"{behaviour.num_texts} texts were split by both, and not all alike")
    if not compared:
        return Outcome(
            verdict="skipped", reason=f"not checked: {behaviour.unchecked}", findings=tuple(findings)
        )
    return settled(findings, compared=compared, unchecked=filter(None, [behaviour.unchecked]))


def _difference(found: TokenizerComparison) -> Iterator[Finding]:
    difference = found.behaviour.difference if found.behaviour is not None else None
    if difference is None:
        return
    text = quoted(difference.text)
    if difference.one_sided_token is not None:
        text += " (a token that only one side has)"
    observed = (
        f"{text} is {_tokens(difference.target_tokens, difference.target_ids)} for the target and "
        f"{_tokens(difference.draft_tokens, difference.draft_ids)} for the drafter{_sections(found)}"
    )
    yield Finding(
        code=_CODE,
        severity=_severity(difference),
        message="the drafter's tokenizer puts other tokens around a text"
        if difference.with_special_tokens
        else "the drafter's tokenizer splits text differently",
        observed=observed,
        expected="the same ids from both",
        remedy="measure acceptance on such text; if it is low, train with the target's tokenizer",
        where=Where(
            file=found.draft.file if found.draft else None,
            field=next(iter(found.section_differences), "added_tokens"),
        ),
        causes=("tokenizer-conflict",),
    )


def _severity(difference: TokenizationDifference) -> Severity:
    """A warning, unless DF201 explains it or it is a BOS, which the target's tokenizer decides anyway."""
    is_explained = difference.one_sided_token is not None or difference.with_special_tokens
    return "info" if is_explained else "warning"


def _settings(found: TokenizerComparison) -> Iterator[Finding]:
    file = PurePath(found.draft.file).with_name("tokenizer_config.json") if found.draft is not None else None
    for setting in found.setting_differences:
        yield Finding(
            code=_CODE,
            severity="info",
            message=f"the two name different values for {setting.key}",
            observed=f"target {setting.target!r}, drafter {setting.draft!r}",
            expected="the same; the engine uses the target's",
            remedy="nothing for serving; it tells that the drafter's files come from elsewhere",
            where=Where(file=str(file), field=setting.key),
        )


def _although(found: TokenizerComparison) -> str:
    names = [*found.section_differences, *(["flags of added tokens"] if found.num_flag_differences else [])]
    return f", although they differ in {', '.join(names)}" if names else ""


def _sections(found: TokenizerComparison) -> str:
    names = ", ".join(found.section_differences)
    return f"; they differ in {names}" if names else ""


def _tokens(tokens: tuple[str, ...], ids: tuple[int, ...]) -> str:
    shown = ", ".join(repr(token) for token in tokens[:_MAX_TOKENS])
    numbers = " ".join(str(number) for number in ids[:_MAX_TOKENS])
    more = f", and {len(ids) - _MAX_TOKENS} more" if len(ids) > _MAX_TOKENS else ""
    return f"[{shown}] (ids {numbers}{more})"
