"""The rotary layout is not the trained one, or nobody says which it is

## What it checks

Rotary embedding turns pairs of numbers: the two halves of a head (neox) or neighbours (interleaved). vLLM
reads `is_neox_style` from the drafter's config, SGLang `rope_is_neox_style` first; without a key both take
neox.

## Why it matters

The wrong layout pins acceptance at 1.03 without an error (vllm-project/vllm#53063). A drafter for an
interleaved target may be trained either way. A key of one spelling only makes a checkpoint behave
differently on two engines.

## Example

    DF114 vllm would rotate halves, the drafter was trained on neighbouring pairs
      seen:     rope_is_neox_style false, which vllm does not read

## What to do

Write the layout into the drafter's config under both spellings.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding

_NAMES = ("is_neox_style", "rope_is_neox_style")


def judge(case: Case) -> Outcome:
    """Compare the layout in force with the stated one."""
    view = pair_view(case)
    if isinstance(view, Outcome):
        return view
    if view.served is None or view.trained.neox is None:
        return skipped(f"not checked: which layout {view.engine} takes")
    stated = [name for name in _NAMES if getattr(view.config, name) is not None]
    if len({getattr(view.config, name) for name in stated}) == 2:
        return settled([_contradiction(view)], compared=[])
    trained = view.trained.neox
    if view.served.neox != trained:
        return settled([_misread(view, stated[0], trained)], compared=[])
    findings = []
    if not stated and view.target_config is not None and _interleaved(view):
        findings.append(_silent(view))
    elif len(stated) == 1 and not trained:
        findings += [_portability(view, other.reader) for other in view.others if other.neox != trained]
    layout = _words(trained)
    return settled(findings, compared=[f"{view.engine} rotates {layout} ({view.served.neox_from})"])


def _interleaved(view: PairView) -> bool:
    target = view.target_config
    assert target is not None, "the caller looked"
    return target.rope_interleaved is True or (target.rope_interleaved is None and target.interleaved_family)


def _words(neox: bool | None) -> str:
    return "halves (neox)" if neox else "neighbouring pairs (interleaved)"


def _misread(view: PairView, name: str, trained: bool) -> Finding:
    missing = next(item for item in _NAMES if item != name)
    return Finding(
        code="DF114",
        severity="error",
        message=f"{view.engine} would rotate {_words(not trained)}; the drafter says {_words(trained)}",
        observed=f"{name} {str(trained).lower()}, which {view.engine} does not read",
        expected=f"{missing} {str(trained).lower()} beside it",
        remedy=f"add {missing} to the drafter's config",
        edit=f"{view.draft.config_file}: {missing} = {str(trained).lower()}",
        where=view.in_draft(name),
        causes=("rotary-layout",),
    )


def _contradiction(view: PairView) -> Finding:
    return Finding(
        code="DF114",
        severity="error",
        message="the drafter's config states both rotary layouts",
        observed="; ".join(f"{name} {str(getattr(view.config, name)).lower()}" for name in _NAMES),
        expected="one layout under both spellings",
        remedy="correct the wrong one; the original release says which",
        where=view.in_draft("rope_is_neox_style"),
        causes=("rotary-layout",),
    )


def _silent(view: PairView) -> Finding:
    return Finding(
        code="DF114",
        severity="info",
        message="the target's family rotates neighbouring pairs, and the drafter's config names no layout",
        observed=f"neither is_neox_style nor rope_is_neox_style; {view.engine} takes "
        f"{_words(view.served.neox if view.served else None)}",
        expected="the trained layout under both spellings",
        remedy="write the trained layout into the drafter's config; try both where nobody knows",
        where=view.in_draft("is_neox_style"),
        causes=("rotary-layout",),
    )


def _portability(view: PairView, reader: str) -> Finding:
    return Finding(
        code="DF114",
        severity="info",
        message=f"served with {reader}, the drafter would be rotated the other way",
        observed=f"{reader} does not read the key that the config has",
        expected="both is_neox_style and rope_is_neox_style",
        remedy=f"nothing for {view.engine}; add the other spelling before serving with {reader}",
        where=view.in_draft("is_neox_style"),
    )
