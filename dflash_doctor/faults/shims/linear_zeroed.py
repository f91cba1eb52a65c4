"""One matrix of the drafter was never loaded and is zero."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from dflash_doctor.faults.shims.live import Uninstall, draft_layers, replaced


def install(runner: Any, *, module: str) -> Uninstall:
    """Make one linear module of the drafter answer with zeros.

    Its output and not its weight, because engines pack weights at load and drop the original.

    Args:
        runner: the model runner.
        module: path inside the drafter, such as `layers.0.mlp.down_proj` or `fc`.
    """
    found = draft_layers(runner).get_submodule(module)
    original = found.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        if isinstance(output, tuple):
            return (output[0] * 0, *output[1:])
        return output * 0

    return replaced(found, "forward", forward)


def drawn(rng: random.Random, draft_config: Mapping[str, Any]) -> dict[str, Any]:
    """The feature projection, or an output projection of any layer."""
    layer = rng.randrange(draft_config["num_hidden_layers"])
    return {"module": rng.choice(("fc", f"layers.{layer}.mlp.down_proj", f"layers.{layer}.self_attn.o_proj"))}
