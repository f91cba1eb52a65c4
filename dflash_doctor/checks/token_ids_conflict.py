"""Target and drafter map ids to different tokens

## What it checks

Which text every token id stands for, in the tokenizer files of the target and of the drafter: the maps, not
their sizes. They are *identical*; or differ by *padding only* (unused embedding rows past the last id); or
one has tokens *added* that the other lacks, normally past its last id; or they *conflict*: an id stands for
one text here and for another there. Only a conflict fails.

## Why it matters

Target and drafter exchange token ids and nothing else. The engine turns text into ids with the target's
tokenizer and never looks at the drafter's: with conflicting maps it starts cleanly, the drafter reads other
words than were written, and drafts words that mean something else to the target. The output stays right,
acceptance falls towards nothing. Where the drafter shares the target's embedding and head a conflict says
that it was trained with another tokenizer; two swapped tokens cost little, another vocabulary all.

Different sizes alone break nothing: Qwen tables have 151936 or 152064 rows for the same tokens.

## Example

    DF201 target and drafter map ids to different tokens
      seen:     2 of 1,024 ids conflict: 500 is ' want' for the target, ' wants' for the drafter; 501 is
                ' wants' for the target, ' want' for the drafter
      expected: every id stands for the same text on both sides
      do:       use a drafter that was trained with this target's tokenizer

## What to do

Use the drafter that was trained for this very target, or restore the tokenizer files of its release when
they were edited or copied from elsewhere afterwards. Where the drafter's files are a stale copy and its
training used the target's tokenizer, replace them with the target's.
"""

from __future__ import annotations

from collections.abc import Iterator

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.contract.tokenizers import TokenConflict, TokenizerComparison, TokenizerFacts
from dflash_doctor.records import Finding, Severity, Where

_CODE = "DF201"
_MAX_SHOWN = 3


def judge(case: Case) -> Outcome:
    """Judge what the comparison of the two maps found."""
    contract = case.evidence.contract
    found = contract.tokenizers if contract is not None else None
    if found is None:
        return skipped("not checked: nobody looked at the tokenizer files")
    findings = [*_unreadable(found), *_conflict(found), *_added(found), *_beyond_rows(found)]
    if found.classification is None and not any(item.severity == "error" for item in findings):
        # Nothing was compared, so a note must not make it look passed.
        return Outcome(verdict="skipped", reason=f"not checked: {found.unchecked}", findings=tuple(findings))
    return settled(findings, compared=[_summary(found)] if found.classification is not None else [])


def _summary(found: TokenizerComparison) -> str:
    target, draft = found.target, found.draft
    num_ids = (target.num_ids if target is not None else None) or 0
    if found.classification == "padding-only" and target is not None and draft is not None:
        return (
            f"{num_ids:,} ids stand for the same tokens; the embeddings, of {target.num_rows:,} and "
            f"{draft.num_rows:,} rows, differ in unused rows only"
        )
    if found.classification == "suffix-added":
        return "no id stands for different texts; " + _sizes(found)
    return f"{num_ids:,} ids stand for the same tokens"


def _sizes(found: TokenizerComparison) -> str:
    sides = (("target", found.num_target_only), ("drafter", found.num_draft_only))
    return " and ".join(f"the {side} alone has {number:,} more" for side, number in sides if number)


def _unreadable(found: TokenizerComparison) -> Iterator[Finding]:
    for side, facts in (("target", found.target), ("drafter", found.draft)):
        if facts is None or facts.problem is None:
            continue
        is_target = side == "target"
        yield Finding(
            code=_CODE,
            severity=_of_unreadable(is_target, facts),
            message=f"the {side}'s tokenizer cannot be {'compared' if facts.is_other_format else 'read'}",
            observed=facts.problem,
            expected="a tokenizer.json that the tokenizers library can load",
            remedy="save it with a current transformers (`save_pretrained`) to have it compared"
            if facts.is_other_format
            else "restore the file from the original release"
            + ("" if is_target else ", or remove it: engines use the target's"),
            where=Where(file=facts.file),
            causes=() if facts.is_other_format else ("tokenizer-conflict",),
        )


def _of_unreadable(is_target: bool, facts: TokenizerFacts) -> Severity:
    """Engines read the target's file and do not start on a damaged one; the drafter's is only evidence."""
    if facts.is_other_format:
        return "info"
    return "error" if is_target else "warning"


def _conflict(found: TokenizerComparison) -> Iterator[Finding]:
    if found.classification != "conflicting" or found.target is None:
        return
    shown = "; ".join(_said(conflict) for conflict in found.conflicts[:_MAX_SHOWN])
    yield Finding(
        code=_CODE,
        severity="error",
        message="target and drafter map ids to different tokens",
        observed=f"{found.num_conflicting:,} of {found.target.num_ids or 0:,} ids conflict: {shown}",
        expected="every id stands for the same text on both sides",
        remedy="use a drafter that was trained with this target's tokenizer",
        where=Where(file=_file(found.draft), field="model.vocab"),
        causes=("tokenizer-conflict", "wrong-drafter-for-target"),
        numbers={"num_conflicting": found.num_conflicting, "num_ids": found.target.num_ids or 0},
    )


def _added(found: TokenizerComparison) -> Iterator[Finding]:
    if found.classification != "suffix-added":
        return
    shown = "; ".join(_said(one) for one in found.one_sided[:_MAX_SHOWN])
    yield Finding(
        code=_CODE,
        severity="info",
        message="one tokenizer has tokens that the other lacks",
        observed=f"{_sizes(found)}: {shown}",
        expected="the same tokens; more on one side break nothing",
        remedy="nothing, unless these tokens are frequent in your traffic: the drafter may not know them",
        where=Where(file=_file(found.draft), field="added_tokens"),
        numbers={"num_target_only": found.num_target_only, "num_draft_only": found.num_draft_only},
    )


def _beyond_rows(found: TokenizerComparison) -> Iterator[Finding]:
    facts = found.target
    if facts is None or facts.num_rows is None or facts.last_id is None or facts.last_id < facts.num_rows:
        return
    yield Finding(
        code=_CODE,
        severity="info",
        message="the target's tokenizer has ids beyond its embedding",
        observed=f"the last id is {facts.last_id:,}, the embedding has {facts.num_rows:,} rows",
        expected="a row for every id",
        remedy="do not use these tokens in prompts; released text-only models have such image tokens",
        where=Where(file=facts.file, field="added_tokens"),
        numbers={"last_id": facts.last_id, "num_rows": facts.num_rows},
    )


def _said(conflict: TokenConflict) -> str:
    target, draft = _shown(conflict.target_text), _shown(conflict.draft_text)
    return f"{conflict.id} is {target} for the target, {draft} for the drafter"


def _shown(text: str | None) -> str:
    return "no token" if text is None else repr(text)


def _file(facts: TokenizerFacts | None) -> str | None:
    return None if facts is None else facts.file
