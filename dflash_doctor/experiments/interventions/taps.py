"""Other target layers: all taps moved, one moved, another order, the list of the default rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations

from dflash_doctor.checkpoints.semantics.read import guessed_taps
from dflash_doctor.contract.pair import GUESSED
from dflash_doctor.experiments.base import Subject, TrialPlan
from dflash_doctor.reference.knobs import Knobs

_OFFSETS = (-1, 1, 2, -2)
_SINGLE_OFFSETS = (-1, 1, -2, 2, -3, 3)
_MOST_PERMUTED = 4
"""Taps of which every order is tried: 23 others; beyond it only neighbours change places."""


def plans(subject: Subject) -> Iterable[TrialPlan]:
    """Tap lists worth trying, likeliest first; none twice."""
    taps, layers = subject.facts.taps, subject.facts.num_target_layers
    seen = {taps}
    for name, candidate in _candidates(subject, taps, layers):
        if candidate in seen or not all(-1 <= tap < layers for tap in candidate):
            continue
        seen.add(candidate)
        cause = "target-layer-ids-shifted"
        if subject.reading.taps_from == GUESSED:
            cause = "target-layer-ids-missing"
        yield TrialPlan(
            name=name,
            cause=cause,
            knobs=Knobs(taps=candidate),
            change=f"target_layer_ids {list(taps)} -> {list(candidate)}",
            remedy=subject.edit("nested_target_layer_ids", "dflash_config.target_layer_ids", list(candidate)),
        )


def _candidates(
    subject: Subject, taps: tuple[int, ...], layers: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    trained = subject.trained.taps
    if trained is not None and len(trained) == len(taps):
        yield "taps as the trainer reads them", trained
    for offset in _OFFSETS:
        yield f"taps {offset:+d}", tuple(tap + offset for tap in taps)
    for offset in _SINGLE_OFFSETS:
        for index, tap in enumerate(taps):
            yield f"tap {index} {offset:+d}", (*taps[:index], tap + offset, *taps[index + 1 :])
    if layers > len(taps) + 2:
        yield "taps spread by the default rule", guessed_taps(len(taps), layers)
    if len(taps) <= _MOST_PERMUTED:
        orders = list(permutations(taps))[1:]
    else:
        orders = [(*taps[:i], taps[i + 1], taps[i], *taps[i + 2 :]) for i in range(len(taps) - 1)] + [
            taps[::-1]
        ]
    for order in orders:
        yield f"taps in the order {', '.join(map(str, order))}", order
