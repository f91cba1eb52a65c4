"""The serving engine reads other target layers than the drafter was trained on

## What it checks

Files number taps in two ways: the layer whose *output* is read (z-lab), or the layer whose *input* is
(EAGLE-3, speculators, GGUF; one more for the same stream). Engines differ in which key they look at first
and in what they add. The check works out, key by key, which layers each engine would really read, and
compares that with what the drafter was trained on. Where a file has both lists they must differ by exactly
one.

A legal list that is wrong in the file itself cannot be seen here: nothing in the files contradicts it. Then
acceptance is poor, which `dflash-doctor diagnose` measures.

## Why it matters

Off by one nothing fails: acceptance drops by 3 to 20 percent and looks like a weak drafter. vLLM's own fix
of the numbering moved MT-Bench from 3.92-4.03 to 4.11-4.16 (vllm-project/vllm#40727). SGLang does not read
speculators files at all and guesses, without a word.

## Example

    DF105 vllm would read other target layers than the drafter was trained on
      seen:     vllm reads 0, 8, 16 (eagle_aux_hidden_state_layer_ids); the file says 1, 9, 17
      do:       set eagle_aux_hidden_state_layer_ids to 2, 10, 18, or remove it

## What to do

Correct the list that the engine reads, or serve with an engine that reads this family.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, listed, pair_view
from dflash_doctor.contract.pair import Reading
from dflash_doctor.records import Finding


def judge(case: Case) -> Outcome:
    """Compare the engine's taps with the trained ones, and the two lists with each other."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    trained = view.trained.taps or view.config.trained_taps
    if not trained:
        return skipped("not checked: the config names no taps")
    findings = _contradiction(view)
    compared, unchecked = [], []
    served = view.served
    if served is None or served.taps is None or served.refuses is not None:
        unchecked.append(f"which layers {view.engine} would read")
    elif sorted(served.taps) == sorted(trained):
        compared.append(f"{view.engine} reads the outputs of layers {listed(served.taps)}, as the file says")
    else:
        findings.append(_misread(view, served, trained))
    findings += [
        _portability(view, item, trained)
        for item in view.others
        if item.taps is not None and sorted(item.taps) != sorted(trained)
    ]
    return settled(findings, compared=compared, unchecked=unchecked)


def _contradiction(view: PairView) -> list[Finding]:
    """Both lists stand in the file and do not name the same streams."""
    outputs = view.config.nested_target_layer_ids or view.config.target_layer_ids
    inputs = view.config.eagle_aux_layer_ids
    if not outputs or not inputs or tuple(item + 1 for item in outputs) == inputs:
        return []
    return [
        Finding(
            code="DF105",
            severity="error",
            message="the file's two lists of target layers contradict each other",
            observed=f"target_layer_ids {listed(outputs)}; eagle_aux_hidden_state_layer_ids {listed(inputs)}",
            expected="eagle_aux_hidden_state_layer_ids one more than target_layer_ids, entry by entry",
            remedy="correct the wrong one; only training, or the original release, knows which it is",
            where=view.in_draft("eagle_aux_layer_ids"),
            causes=("target-layer-ids-shifted",),
        )
    ]


def _misread(view: PairView, served: Reading, trained: tuple[int, ...]) -> Finding:
    guessed = "guessed" in served.taps_from
    return Finding(
        code="DF105",
        severity="error",
        message=f"{view.engine} would read other target layers than the drafter was trained on",
        observed=f"{view.engine} reads {listed(served.taps)} ({served.taps_from}); "
        f"the file says {listed(trained)} ({view.trained.taps_from})",
        expected=f"outputs of layers {listed(trained)}",
        remedy="correct the list that this engine reads, or serve with an engine that reads this family",
        where=view.in_draft("eagle_aux_layer_ids"),
        causes=("target-layer-ids-missing",) if guessed else ("target-layer-ids-shifted",),
    )


def _portability(view: PairView, other: Reading, trained: tuple[int, ...]) -> Finding:
    return Finding(
        code="DF105",
        severity="info",
        message=f"served with {other.reader}, the drafter would read other target layers",
        observed=f"{other.reader} {other.versions} would read {listed(other.taps)} ({other.taps_from})",
        expected=f"outputs of layers {listed(trained)}",
        remedy=f"nothing for {view.engine}; write the list where {other.reader} looks before serving with it",
        where=view.in_draft("aux_layer_ids"),
    )
