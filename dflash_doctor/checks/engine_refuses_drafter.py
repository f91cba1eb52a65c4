"""The engine does not start with this drafter as things are set

## What it checks

Families that the serving engine has no code for, and switches that a drafter needs: vLLM runs drafters that
mix sliding and full layers only on its V2 model runner.

## Why it matters

The engine says so itself, after minutes of loading, or falls back to a class that leaves tensors out.

## Example

    DF120 vllm does not run this drafter
      seen:     gguf: it does not read GGUF drafters

## What to do

Serve with an engine that has the family, or set what the finding names.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding

_OFF = ("0", "false", "False", "")
_NAMED_DFLASH = ("z-lab", "dflash2", "mimo", "modelopt", "nemotron")
"""Families whose class names all have DFlash in them."""


def judge(case: Case) -> Outcome:
    """What the reading of the engine says of starting."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    served = view.served
    if served is None:
        return skipped(f"not checked: nothing is known of how {view.engine} reads drafters")
    if served.refuses is not None:
        ready = [item.reader for item in view.pair.readings if item.refuses is None]
        finding = Finding(
            code="DF120",
            severity="error",
            message=f"{view.engine} does not run this drafter",
            observed=f"{view.config.dialect}: {served.refuses}",
            expected=f"an engine that does: {', '.join(ready) or 'none is known'}",
            remedy=f"serve with {' or '.join(ready)}" if ready else "ask the release which engine runs it",
            where=view.in_draft("architecture"),
            causes=("backend-capability-missing",),
        )
        return settled([finding], compared=[])
    findings = _unknown_class(view)
    findings += [item for need in served.needs if (item := _need(view, need)) is not None]
    return settled(findings, compared=[f"{view.engine} has code for {view.config.dialect} drafters"])


def _unknown_class(view: PairView) -> list[Finding]:
    """Engines choose the code by the class name, whatever else the config says."""
    name = view.config.architecture
    if view.config.dialect not in _NAMED_DFLASH or name is None or "dflash" in name.lower():
        return []
    return [
        Finding(
            code="DF120",
            severity="error",
            message="the class that the config names is no drafter",
            observed=f"architectures {name}, beside the keys of a {view.config.dialect} drafter",
            expected="DFlashDraftModel or a relative of it",
            remedy="restore architectures from the original release: engines choose the code by it",
            where=view.in_draft("architecture"),
            causes=("backend-capability-missing",),
        )
    ]


def _need(view: PairView, need: str) -> Finding | None:
    """A switch that must not be off; unset is an error only on builds that do not turn it on themselves."""
    name = need.partition("=")[0]
    value = view.contract.variables.get(name)
    if value is not None and value not in _OFF:
        return None
    return Finding(
        code="DF120",
        severity="info" if value is None else "error",
        message=f"{view.engine} needs its V2 model runner for drafters that mix sliding and full layers",
        observed=f"{name} is "
        + ("not set; builds with Triton take V2 by themselves" if value is None else value),
        expected=need,
        remedy=f"set {need}",
        edit=f"export {need}",
        where=view.in_draft("layer_types"),
        causes=("backend-capability-missing",),
    )
