"""The drafter rotates with another theta than in training."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall
from dflash_doctor.faults.shims.rotary import rotary_changed


def install(runner: Any, *, base: float) -> Uninstall:
    """Use `base` as theta."""
    return rotary_changed(runner, base=base)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """Ten times smaller to a hundred times larger than the pair's."""
    own = (draft_config.get("rope_parameters") or draft_config)["rope_theta"]
    return {"base": own * rng.choice((0.1, 10.0, 100.0))}
