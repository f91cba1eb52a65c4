"""Whatever the context, the same draft ids: what sorting or maximising NaN gives."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, drafts_changed


def install(runner: Any, *, step: int) -> Uninstall:
    """Draft 0, `step`, 2 * `step`, ...; a step of 0 is the maximum of NaN, 1 the best K of NaN."""
    import torch

    def change(drafts: Any, call: Mapping[str, Any]) -> Any:
        ids = step * torch.arange(drafts.shape[1], dtype=drafts.dtype, device=drafts.device)
        return ids.expand_as(drafts).contiguous()

    return drafts_changed(runner, change)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """Either pattern."""
    return {"step": rng.randint(0, 1)}
