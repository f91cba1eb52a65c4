"""In larger batches each request gets the drafts of its neighbour."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, drafts_changed


def install(runner: Any, *, num_requests: int) -> Uninstall:
    """Rotate drafts over the batch where it has more than `num_requests`."""

    def change(drafts: Any, call: Mapping[str, Any]) -> Any:
        return drafts.roll(1, dims=0) if len(drafts) > num_requests else drafts

    return drafts_changed(runner, change)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """A request alone is always well."""
    return {"num_requests": rng.randint(1, 4)}
