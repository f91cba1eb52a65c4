"""Only a part of each head is rotated where the drafter was trained with all of it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall
from dflash_doctor.faults.shims.rotary import rotary_changed


def install(runner: Any, *, fraction: float) -> Uninstall:
    """Rotate the first `fraction` of each head."""
    return rotary_changed(runner, fraction=fraction)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """A quarter or a half, as hybrid targets have it."""
    return {"fraction": rng.choice((0.25, 0.5))}
