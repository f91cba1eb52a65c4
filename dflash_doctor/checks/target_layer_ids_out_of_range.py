"""A tap points past the target's last layer, or is listed twice

## What it checks

Every tap must be the output of a layer that the target has (0 up to its number of layers less one), and
stand in the list once. A list that does not rise is pointed out.

## Why it matters

An id past the end fails with an unreadable shape error at the first decode step ("expects 20480 features,
got 16384"; vllm-project/vllm#48113). It is the usual sign of a drafter made for another target of the same
size name. vLLM collects taps in layer order whatever the list says, z-lab's code joins them as listed:
where the trainer's order was not rising, the drafter reads its features permuted.

## Example

    DF104 a tap lies past the target's last layer
      seen:     tap 39; the target has 36 layers
      expected: 0 to 35

## What to do

Check that the drafter was made for this target; take the list from the original release.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.pair_view import PairView, listed, pair_view
from dflash_doctor.records import Finding

_FIELDS = ("nested_target_layer_ids", "target_layer_ids", "aux_layer_ids", "eagle_aux_layer_ids")


def judge(case: Case) -> Outcome:
    """Compare the taps with the target's layers and with each other."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    taps = view.config.trained_taps
    if not taps:
        return skipped("not checked: the config names no taps")
    findings = []
    if len(set(taps)) < len(taps):
        findings.append(
            _finding(view, "error", "a tap is listed twice", f"taps {listed(taps)}", "each layer once", taps)
        )
    elif list(taps) != sorted(taps):
        findings.append(
            _finding(
                view,
                "warning",
                "the taps do not rise",
                f"taps {listed(taps)}: vllm joins features in layer order, z-lab's code as listed",
                f"{listed(tuple(sorted(taps)))}, if the drafter was trained in layer order",
                taps,
            )
        )
    num_layers = view.target_config.num_layers if view.target_config is not None else None
    if num_layers is None:
        return settled(findings, compared=[], unchecked=["the target's number of layers is not known"])
    outside = tuple(tap for tap in taps if not 0 <= tap < num_layers)
    if outside:
        findings.append(
            _finding(
                view,
                "error",
                "a tap lies outside the target",
                f"tap {listed(outside)}; the target has {num_layers} layers",
                f"0 to {num_layers - 1} (outputs of layers)",
                taps,
            )
        )
    return settled(findings, compared=[f"taps {listed(taps)} lie within {num_layers} target layers"])


def _finding(
    view: PairView, severity: str, message: str, observed: str, expected: str, taps: tuple[int, ...]
) -> Finding:
    field = next(name for name in _FIELDS if getattr(view.config, name) is not None)
    return Finding(
        code="DF104",
        severity=severity,  # type: ignore[arg-type]
        message=message,
        observed=observed,
        expected=expected,
        remedy="check that the drafter was made for this target; take the list from the original release",
        where=view.in_draft(field),
        causes=("target-layer-ids-out-of-range", "wrong-drafter-for-target"),
        numbers={"highest_tap": max(taps), "lowest_tap": min(taps)},
    )
