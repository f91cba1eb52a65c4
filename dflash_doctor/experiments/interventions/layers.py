"""The drafter's layers in another order."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

from dflash_doctor.experiments.base import Subject, TrialPlan
from dflash_doctor.reference.knobs import Knobs

_MOST_PERMUTED = 3


def plans(subject: Subject) -> Iterable[TrialPlan]:
    """Orders worth trying: all of them for few layers, else neighbours exchanged and the whole reversed."""
    count = subject.facts.num_layers
    same = tuple(range(count))
    if count <= _MOST_PERMUTED:
        orders = list(permutations(same))[1:]
    else:
        orders = [(*same[:i], i + 1, i, *same[i + 2 :]) for i in range(count - 1)] + [same[::-1]]
    for order in orders:
        yield TrialPlan(
            name=f"layers in the order {', '.join(map(str, order))}",
            cause="draft-layers-reordered",
            knobs=Knobs(layer_order=order),
            change=f"drafter layers {list(same)} -> {list(order)}",
            remedy="rename the tensors of the drafter's layers in their trained order; export it again",
        )
