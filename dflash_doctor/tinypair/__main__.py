"""`python -m dflash_doctor.tinypair OUT`: build a tiny pair from nothing."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from dflash_doctor.errors import DoctorError, EngineMissingError
from dflash_doctor.tinypair.shape import SHAPES, PairShape, Recipe


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of corpus, weights and batches."
)
@click.option(
    "--threads",
    default=2,
    show_default=True,
    type=click.IntRange(min=1),
    help="With 1 a rebuild gives the same bytes.",
)
@click.option(
    "--scale",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Multiplies the length of the training.",
)
@click.option(
    "--shape",
    default="plain",
    show_default=True,
    type=click.Choice(list(SHAPES)),
    help="That of one of the bundled pairs.",
)
def main(out: Path, seed: int, threads: int, scale: float, shape: str) -> None:
    """Train a target and a DFlash drafter on a synthetic corpus and write both to OUT."""
    try:
        _build(out, seed=seed, threads=threads, scale=scale, shape=SHAPES[shape])
    except DoctorError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_code)


def _build(out: Path, *, seed: int, threads: int, scale: float, shape: PairShape) -> None:
    # Read when torch is loaded. Threads that spin while they wait for each other stall on a busy machine: two
    # of them, beside other work on two cores, were several times slower than two that sleep.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import torch
        import transformers  # noqa: F401  found out now rather than minutes later
    except ImportError as error:
        raise EngineMissingError(
            "building a pair needs torch and transformers",
            seen=str(error),
            remedy="pip install 'dflash-doctor[reference]'",
        ) from error
    from dflash_doctor.tinypair.build import build_pair
    from dflash_doctor.tinypair.measure import acceptance_table

    torch.set_num_threads(threads)
    recipe = Recipe() if scale == 1.0 else Recipe().scaled(scale)
    built = build_pair(out, shape=shape, recipe=recipe, seed=seed, report=_Lines())
    click.echo(f"{built.folder}\n\n{acceptance_table(built.acceptance)}")


class _Lines:
    """A line on stderr every few seconds, and at the end of each stage."""

    _PERIOD_S = 5.0

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._last = self._started

    def __call__(self, stage: str, done: int, total: int, detail: str) -> None:
        now = time.monotonic()
        if now - self._last >= self._PERIOD_S or done == total:
            self._last = now
            elapsed = now - self._started
            click.echo(f"{elapsed:6.0f} s  {stage:<17} {done:>5} of {total}  {detail}", err=True)


if __name__ == "__main__":
    main()
