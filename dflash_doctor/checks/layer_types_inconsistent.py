"""The drafter's layer types or windows contradict each other, or the engine loses them

## What it checks

One entry of `layer_types` per layer, of known kinds; a window length where layers slide, and the switch
`use_sliding_window` without which the config class forgets it; and whether the
serving engine sees the same windows as training did (`use_swa` is read by vLLM only, for one).

## Why it matters

A windowed drafter run with full attention is fine on short prompts and loses up to 17 points past the
window (ikawrakow/ik_llama.cpp#2021, z-lab/dflash#126). It looks like "long contexts are hard".

## Example

    DF117 sglang would run without the drafter's windows
      seen:     windows 2048 in 5 layers by dflash_config.use_swa, which sglang does not read

## What to do

State `layer_types` and `sliding_window` at top level; take an engine or backend that honours windows.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding, Where

KNOWN_KINDS = ("full_attention", "sliding_attention")


def judge(case: Case) -> Outcome:
    """Check the kinds, then the windows in force."""
    view = pair_view(case)
    if isinstance(view, Outcome):
        return view
    kinds = view.config.layer_kinds()
    if kinds is None:
        return skipped("not checked: the drafter's number of layers is not stated")
    findings = _kinds(view, kinds)
    compared, unchecked = [], []
    served, trained = view.served, view.trained
    if served is None or served.windows is None:
        unchecked.append(f"which windows {view.engine} sees")
    elif not findings:
        wanted = _wanted(view, kinds)
        if served.windows == wanted:
            compared.append(f"{view.engine} sees {_words(wanted)}")
        elif served.refuses is None:
            findings.append(_lost(view, served.windows, wanted))
    findings += _portability(view, kinds) if not findings and trained is not None else []
    return settled(findings, compared=compared, unchecked=unchecked)


def _wanted(view: PairView, kinds: tuple[str, ...]) -> tuple[int | None, ...]:
    return tuple(view.config.window if kind == "sliding_attention" else None for kind in kinds)


def _words(windows: tuple[int | None, ...]) -> str:
    lengths = sorted({item for item in windows if item is not None})
    if not lengths:
        return "full attention in every layer"
    count = sum(item is not None for item in windows)
    return f"a window of {', '.join(f'{item:,}' for item in lengths)} in {count} of {len(windows)} layers"


def _kinds(view: PairView, kinds: tuple[str, ...]) -> list[Finding]:
    config, where = view.config, view.in_draft("layer_types")
    findings = []
    stated = config.layer_types
    if stated is not None and config.num_layers is not None and len(stated) != config.num_layers:
        findings.append(
            _finding(
                "layer_types does not have one entry per layer",
                f"{len(stated)} entries; num_hidden_layers {config.num_layers}",
                f"{config.num_layers} entries",
                where,
            )
        )
    strange = sorted(set(stated or ()) - set(KNOWN_KINDS))
    if strange:
        findings.append(
            _finding(
                "layer_types holds a kind that no engine knows for drafters",
                ", ".join(strange),
                " or ".join(KNOWN_KINDS),
                where,
            )
        )
    if _is_forgotten(view, kinds):
        findings.append(
            _finding(
                "the window is stated and the config class forgets it",
                f"sliding_window {config.sliding_window:,}; use_sliding_window "
                + ("is not stated" if config.use_sliding_window is None else "false"),
                "use_sliding_window true",
                view.in_draft("sliding_window"),
                edit=f"{view.draft.config_file}: use_sliding_window = true",
            )
        )
    if "sliding_attention" in kinds and config.window is None:
        findings.append(
            _finding(
                "sliding layers without a window length",
                f"{kinds.count('sliding_attention')} sliding layers; no sliding_window, no swa_window_size",
                "the window that the drafter was trained with",
                where,
            )
        )
    return findings


def _is_forgotten(view: PairView, kinds: tuple[str, ...]) -> bool:
    """Whether Transformers' Qwen3 config drops the window before an engine sees it.

    Files of speculators do not pass through that class; `swa_window_size` is kept by every reader.
    """
    config = view.config
    return (
        "sliding_attention" in kinds
        and config.model_type == "qwen3"
        and not config.dialect.startswith("speculators")
        and config.sliding_window is not None
        and config.swa_window_size is None
        and not config.use_sliding_window
    )


def _lost(view: PairView, seen: tuple[int | None, ...], wanted: tuple[int | None, ...]) -> Finding:
    able = [item.reader for item in view.others if item.windows == wanted]
    remedy = "state layer_types and sliding_window at top level"
    return _finding(
        f"{view.engine} would not run the drafter's windows",
        f"{view.engine} sees {_words(seen)}; the drafter has {_words(wanted)}",
        _words(wanted),
        view.in_draft("use_swa" if view.config.use_swa else "sliding_window"),
        remedy=f"{remedy}, or serve with {' or '.join(able)}" if able else remedy,
    )


def _portability(view: PairView, kinds: tuple[str, ...]) -> list[Finding]:
    wanted = _wanted(view, kinds)
    return [
        Finding(
            code="DF117",
            severity="info",
            message=f"served with {other.reader}, the drafter would lose its windows",
            observed=f"{other.reader} sees {_words(other.windows)}",
            expected=_words(wanted),
            remedy=f"nothing for {view.engine}; state layer_types and sliding_window at top level",
            where=view.in_draft("use_swa"),
        )
        for other in view.others
        if other.windows is not None and other.windows != wanted
    ]


def _finding(
    message: str,
    observed: str,
    expected: str,
    where: Where,
    *,
    edit: str | None = None,
    remedy: str = "correct layer_types, sliding_window and use_swa as the drafter was trained",
) -> Finding:
    return Finding(
        code="DF117",
        severity="error",
        message=message,
        observed=observed,
        expected=expected,
        remedy=remedy,
        edit=edit,
        where=where,
        causes=("sliding-window-ignored",),
    )
