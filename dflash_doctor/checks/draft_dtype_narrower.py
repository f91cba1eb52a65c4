"""The drafter would run in a number type whose range is smaller than its own

## What it checks

The type in which the drafter would run (`dtype`, else the target's) against the type of its checkpoint.
float16 ends at 65,504; bfloat16 has the range of float32. Targets quantised with AWQ or GPTQ default to
float16.

## Why it matters

One overflow makes the drafter's output NaN, and the top of NaN is token 0, 1, 2 ...: none of 1,100 drafts
was accepted, where bfloat16 gave 37-41 percent (vllm-project/vllm#55250).

## Example

    DF122 a bfloat16 drafter would run in float16
      seen:     dtype float16 (engine argument); the drafter's config says bfloat16
      do:       run in bfloat16

## What to do

Run target and drafter in bfloat16.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding

_HALF = ("float16", "half", "fp16")
_DEFAULT_HALF = ("awq", "gptq")


def judge(case: Case) -> Outcome:
    """Compare the running type with the drafter's own."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    own = view.config.dtype or _stored(view)
    if own is None:
        return skipped("not checked: the drafter's number type is not stated")
    running, why = _running(view)
    if running is None:
        return skipped("not checked: the running number type is not stated")
    own = own.removeprefix("torch.")
    running = running.removeprefix("torch.")
    if running in _HALF and own not in _HALF:
        finding = Finding(
            code="DF122",
            severity="error",
            message=f"a {own} drafter would run in float16",
            observed=f"{running} ({why}); the drafter's config says {own}",
            expected="bfloat16: the range of float32",
            remedy="run in bfloat16",
            edit="--engine-arg dtype=bfloat16",
            where=view.in_draft("dtype"),
            causes=("draft-dtype-overflow",),
        )
        return settled([finding], compared=[])
    return settled([], compared=[f"{own} drafter in {running} ({why})"])


def _running(view: PairView) -> tuple[str | None, str]:
    asked = view.argument("dtype")
    if isinstance(asked, str) and asked != "auto":
        return asked, "engine argument"
    target = view.target_config
    if target is None:
        return None, ""
    scheme = target.quantization
    if target.dtype is not None:
        return target.dtype, "the target's config"
    if scheme is not None and any(name in scheme.method.lower() for name in _DEFAULT_HALF):
        return "float16", f"default for {scheme.method} targets"
    return None, ""


def _stored(view: PairView) -> str | None:
    names = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
    kinds = {item.dtype for item in view.draft.tensors or ()} & set(names)
    return names[kinds.pop()] if len(kinds) == 1 else None
