"""Inside the block the engine lets other positions see each other than training did

## What it checks

Whether each layer is causal or bidirectional inside the block, as the serving engine settles it from
`is_causal`, `dflash_config.causal`, `sliding_window_non_causal` and the layer types, against what training
did.

## Why it matters

Nothing fails, and acceptance falls: from 4.899 to 4.647 on the bundled pair, 5 percent, with the same text.
speculators writes `sliding_window_non_causal: false` into every checkpoint; vLLM 0.32 and 0.33 turn that
into "causal" for *all* layers, full-attention ones included, which were trained bidirectional
(vllm-project/vllm#56692). Transformers runs every layer bidirectional.

## Example

    DF118 vllm would run 5 of 5 drafter layers causal that were trained bidirectional
      seen:     sliding_window_non_causal false (vllm: all layers causal)
      do:       set sliding_window_non_causal to true

## What to do

Write the causality that the drafter was trained with, in the key that the engine reads.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.contract.pair import Reading
from dflash_doctor.records import Finding

ALWAYS_BIDIRECTIONAL = "always bidirectional"
_FIELDS = ("is_causal", "causal", "sliding_window_non_causal", "layer_types")


def judge(case: Case) -> Outcome:
    """Compare causality per layer."""
    view = pair_view(case)
    if isinstance(view, Outcome):
        return view
    trained, served = view.trained.causal, view.served
    if trained is None:
        return skipped("not checked: the drafter's number of layers is not stated")
    findings, compared, unchecked = [], [], []
    if served is None or served.causal is None or served.refuses is not None:
        unchecked.append(f"what {view.engine} does inside the block")
    elif served.causal == trained:
        compared.append(f"{view.engine} runs {_words(trained)}, as the file says ({served.causal_from})")
        findings += _ambiguous(view)
    else:
        findings.append(_misread(view, served, trained))
    findings += [
        _portability(view, other, trained)
        for other in view.others
        if other.causal is not None and other.causal != trained
    ]
    return settled(findings, compared=compared, unchecked=unchecked)


def _words(causal: tuple[bool, ...]) -> str:
    count = sum(causal)
    if count in (0, len(causal)):
        return f"all {len(causal)} layers {'causal' if count else 'bidirectional'}"
    return f"{count} of {len(causal)} layers causal"


def _place(view: PairView) -> str:
    return next((name for name in _FIELDS if getattr(view.config, name) is not None), "layer_types")


def _misread(view: PairView, served: Reading, trained: tuple[bool, ...]) -> Finding:
    assert served.causal is not None, "the caller looked"
    wrong = sum(now != then for now, then in zip(served.causal, trained, strict=False))
    field, edit = _place(view), None
    by_code = served.causal_from == ALWAYS_BIDIRECTIONAL
    if by_code:
        pass
    elif field == "sliding_window_non_causal" and not any(trained):
        edit = f"{view.draft.config_file}: sliding_window_non_causal = true"
    elif len(set(trained)) == 1:
        edit = f"{view.draft.config_file}: is_causal = {str(trained[0]).lower()}"
    return Finding(
        code="DF118",
        severity="error",
        message=f"{view.engine} would run {wrong} of {len(trained)} drafter layers with another causality "
        "than training",
        observed=f"{view.engine}: {_words(served.causal)} ({served.causal_from}); trained: {_words(trained)} "
        f"({view.trained.causal_from})",
        expected=_words(trained),
        remedy=_remedy(view, by_code, edit),
        edit=edit,
        where=view.in_draft(field),
        causes=("causal-flag",),
        numbers={"num_layers": len(trained), "num_misread": wrong},
    )


def _remedy(view: PairView, by_code: bool, edit: str | None) -> str:
    if by_code:
        others = [item.reader for item in view.others if item.causal == view.trained.causal]
        return (
            f"no key changes it: serve with {' or '.join(others) or 'an engine that reads the layer types'}"
        )
    key = f": {edit.partition(': ')[2]}" if edit else ""
    return f"write the trained causality into the key that the engine reads{key}"


def _ambiguous(view: PairView) -> list[Finding]:
    """Engines agree today only because they take the same default."""
    kinds = view.config.layer_types or ()
    config = view.config
    stated = (config.is_causal, config.causal, config.sliding_window_non_causal)
    if "sliding_attention" not in kinds or any(item is not None for item in stated):
        return []
    return [
        Finding(
            code="DF118",
            severity="info",
            message="sliding layers, and no key says whether they are causal inside the block",
            observed="engines infer causal from sliding",
            expected="is_causal or dflash_config.causal in the config",
            remedy="nothing while the drafter was trained so; exporters should write the key",
            where=view.in_draft("layer_types"),
        )
    ]


def _portability(view: PairView, other: Reading, trained: tuple[bool, ...]) -> Finding:
    return Finding(
        code="DF118",
        severity="info",
        message=f"served with {other.reader}, the block would have another causality",
        observed=f"{other.reader} {other.versions}: {_words(other.causal or ())} ({other.causal_from})",
        expected=_words(trained),
        remedy=f"nothing for {view.engine}",
        where=view.in_draft(_place(view)),
    )
