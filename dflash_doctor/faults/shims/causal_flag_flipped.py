"""Attention inside the block has the causality that the drafter was not trained with."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, draft_layers, in_reverse, replaced


def install(runner: Any, *, shown: bool) -> Uninstall:
    """Flip the flag that the drafter's attention obeys.

    Args:
        runner: the model runner.
        shown: flip what the layers say of themselves too, as a misread config does.
    """
    steps = [replaced(runner.drafter, "dflash_causal", not runner.drafter.dflash_causal)]
    if shown:
        for layer in draft_layers(runner).layers:
            steps.append(replaced(layer.self_attn, "causal", not layer.self_attn.causal))
    return in_reverse(*steps)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """With and without a trace in the layers' own flags."""
    return {"shown": rng.random() < 0.5}
