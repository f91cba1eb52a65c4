"""The drafter was made for another target

## What it checks

What the drafter's files say of their target (hidden size, number of layers, vocabulary, class, name)
against the target that was given. A name that differs in spelling only, or a local folder, is not held
against it.

## Why it matters

Size names repeat: a drafter for Qwen3-8B on Qwen3.5-8B loads, or fails with a shape error that names
neither. A fine-tuned target keeps every shape, and acceptance falls to 1-10 percent or stays at 97: only a
measurement tells (AEON-7/Qwen3.6-27B-AEON-Ultimate-Uncensored-DFlash#6, z-lab/dflash#149).

## Example

    DF107 the drafter was made for a target of other shape
      seen:     num_target_layers 40 in the drafter's config; the target has 36 layers

## What to do

Take the drafter that was made for this target. Where the target is a fine-tuned relative, measure:
`dflash-doctor diagnose`.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding, Where


def judge(case: Case) -> Outcome:
    """Compare what the drafter says of its target with the target."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    target = view.target_config
    if target is None:
        return skipped("not checked: the target's config could not be read")
    findings, compared, unchecked = [], [], []
    for field, words, of_target in (
        ("num_target_layers", "number of layers", "num_layers"),
        (_width_field(view), "hidden size", "hidden_size"),
    ):
        said, real = getattr(view.config, field), getattr(target, of_target)
        if said is None or real is None:
            unchecked.append(f"the {words} the drafter was made for")
        elif said == real:
            compared.append(f"{words} {real:,}")
        else:
            findings.append(_shape(view, field, words, said, real, of_target))
    findings += _other_vocabulary(view) if view.config.dialect == "draft-model" else []
    findings += _named(view, compared, unchecked)
    return settled(findings, compared=compared, unchecked=unchecked)


def _width_field(view: PairView) -> str:
    """Where the drafter says how wide its target is.

    Without an embedding of its own the target's goes straight into the block, so the widths must agree.
    """
    own_embedding = view.draft.tensor("embed_tokens.weight") is not None
    silent = view.config.target_hidden_size is None
    return (
        "hidden_size"
        if view.config.is_block_drafter and silent and not own_embedding
        else "target_hidden_size"
    )


def _shape(view: PairView, field: str, words: str, said: int, real: int, of_target: str) -> Finding:
    where = view.in_draft(field)
    return Finding(
        code="DF107",
        severity="error",
        message="the drafter was made for a target of other shape",
        observed=f"{words} {said:,} in the drafter's config ({where.field}); the target has {real:,} "
        f"({view.in_target(of_target).field})",
        expected=f"a drafter made for a target with {words} {real:,}",
        remedy="take the drafter that was made for this target",
        where=where,
        causes=("wrong-drafter-for-target",),
        numbers={"stated": said, "target": real},
    )


def _other_vocabulary(view: PairView) -> list[Finding]:
    """A draft model proposes ids of its own table, so both tables must have the same rows."""
    said, real = view.config.vocab_size, view.target_config.vocab_size if view.target_config else None
    if said is None or real is None or said == real:
        return []
    return [_shape(view, "vocab_size", "vocabulary size", said, real, "vocab_size")]


def _named(view: PairView, compared: list[str], unchecked: list[str]) -> list[Finding]:
    """Class and name of the target as the drafter recorded them."""
    target = view.target_config
    assert target is not None, "the caller looked"
    findings = []
    said, real = view.config.verifier_architecture, target.architecture
    if said is not None and real is not None:
        if said == real:
            compared.append(f"target class {real}")
        else:
            findings.append(_note("warning", view.in_draft("verifier_architecture"), said, real, "class"))
    name = view.config.verifier_name
    if name is None:
        unchecked.append("the name of the target it was made for is not recorded")
    elif _same_name(name, view.target.name):
        compared.append(f"made for {name}")
    else:
        findings.append(_note("info", view.in_draft("verifier_name"), name, view.target.name, "name"))
    return findings


def _note(severity: str, where: Where, said: str, real: str, words: str) -> Finding:
    return Finding(
        code="DF107",
        severity=severity,  # type: ignore[arg-type]
        message=f"the drafter records another target {words}",
        observed=f"{said} in the drafter's config; the target given is {real}",
        expected="the same, or a relative whose acceptance was measured",
        remedy="measure the pair: dflash-doctor diagnose",
        where=where,
        causes=("target-changed", "wrong-drafter-for-target"),
    )


def _same_name(said: str, given: str) -> bool:
    """Owner and path aside: `Qwen/Qwen3-8B` is `/models/qwen3-8b`."""

    def core(name: str) -> str:
        return name.rstrip("/").rsplit("/", 1)[-1].lower().replace("_", "-")

    return core(said) == core(given)
