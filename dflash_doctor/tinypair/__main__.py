"""`python -m dflash_doctor.tinypair OUT`: build a tiny pair from nothing."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--seed", default=0, show_default=True, help="Of corpus, weights and batches.")
@click.option("--threads", default=2, show_default=True, help="With 1 a rebuild gives the same bytes.")
@click.option("--scale", default=1.0, show_default=True, help="Multiplies the length of the training.")
def main(out: Path, seed: int, threads: int, scale: float) -> None:
    """Train a target and a DFlash drafter on a synthetic corpus and write both to OUT."""
    import torch

    from dflash_doctor.tinypair.build import build_pair
    from dflash_doctor.tinypair.shape import Recipe

    torch.set_num_threads(threads)
    recipe = Recipe() if scale == 1.0 else Recipe().scaled(scale)
    built = build_pair(out, recipe=recipe, seed=seed, report=_Lines())
    click.echo(f"{built.folder}: acceptance length {built.acceptance_length:.2f}")
    for category, length in built.acceptance_length_by_category.items():
        click.echo(f"  {category:<8} {length:.2f}")


class _Lines:
    """A line on stderr every few seconds, and at the end of each stage."""

    _PERIOD_S = 5.0

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._last = 0.0

    def __call__(self, stage: str, done: int, total: int, detail: str) -> None:
        now = time.monotonic()
        if now - self._last >= self._PERIOD_S or done == total:
            self._last = now
            elapsed = now - self._started
            sys.stderr.write(f"{elapsed:6.0f} s  {stage:<17} {done:>5} of {total}  {detail}\n")


if __name__ == "__main__":
    main()
