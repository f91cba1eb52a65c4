"""Draws a smaller workload that still covers every category."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from dflash_doctor.workloads.prompts import Prompt


def stratified(prompts: Sequence[Prompt], max_prompts: int, *, seed: int) -> tuple[Prompt, ...]:
    """At most `max_prompts`, as evenly over the categories as their sizes allow, in file order.

    The same seed draws the same prompts; a larger `max_prompts` draws a superset.
    """
    if len(prompts) <= max_prompts:
        return tuple(prompts)
    generator = random.Random(seed)
    shuffled = generator.sample(range(len(prompts)), len(prompts))
    by_category: dict[str, list[int]] = defaultdict(list)
    for index in shuffled:
        by_category[prompts[index].category].append(index)
    # Round robin: the k-th prompt of every category comes before the (k+1)-th of any.
    ranked = sorted(
        (rank, category, index)
        for category, members in by_category.items()
        for rank, index in enumerate(members)
    )
    kept = sorted(index for _, _, index in ranked[:max_prompts])
    return tuple(prompts[index] for index in kept)
