"""Norm weights of the drafter were never loaded and kept their initial value."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, draft_layers, in_reverse


def install(runner: Any, *, norms: Sequence[str], value: float) -> Uninstall:
    """Fill the weight of every module of the drafter whose path ends in one of `norms`.

    Args:
        runner: the model runner.
        norms: such as `k_norm`, `hidden_norm`, `layers.0.input_layernorm`.
        value: 1 is what a model starts with, 0 what an empty tensor holds.

    Raises:
        ValueError: there is no such norm.
    """
    model = draft_layers(runner)
    weights = []
    for norm in norms:
        found = [
            module.weight.data for name, module in model.named_modules() if f".{name}".endswith(f".{norm}")
        ]
        if not found:
            raise ValueError(f"the drafter has no norm {norm!r}")
        weights += found
    # Keys of the context are normalised with a stacked copy of the layers' weights.
    if "k_norm" in norms:
        weights.append(model._k_norm_weights)
    return in_reverse(*(_filled(weight, value) for weight in weights))


def _filled(weight: Any, value: float) -> Uninstall:
    old = weight.clone()
    weight.fill_(value)
    return lambda: weight.copy_(old)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """Ones in the norms of queries and keys, or zeros where a whole path dies with them."""
    norms, value = rng.choice(((["q_norm", "k_norm"], 1.0), (["hidden_norm"], 0.0), (["k_norm"], 0.0)))
    return {"norms": norms, "value": value}
