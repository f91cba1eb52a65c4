"""Cases of the self-test and what came of them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

Split = Literal["tuning", "evaluation"]

TUNING_SEEDS = range(100)
EVALUATION_SEEDS = range(100, 200)
"""Thresholds were chosen on tuning seeds only; what is published comes from evaluation seeds."""


class SelftestCase(msgspec.Struct, frozen=True, kw_only=True):
    """One fault or control, on one pair, with one seed."""

    name: str
    place: str
    pair: Path
    seed: int
    causes: tuple[str, ...]
    """Right answers; empty for a control."""
    needs_engine: bool = True

    @property
    def is_control(self) -> bool:
        """Healthy: nothing may be named."""
        return not self.causes


class SelftestResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the diagnosis said of a case."""

    case: SelftestCase
    detail: str
    """What was done to the pair, with numbers."""
    verdict: str
    named: tuple[tuple[str, float], ...]
    """Causes and their confidence, best first."""
    codes: tuple[str, ...]
    """Checks that failed."""
    proof: str = ""
    """The trial or finding that the first cause rests on."""
    has_experiment: bool = False
    """The first cause rests on an experiment whose interval excludes zero."""
    duration_s: float = 0.0
    error: str | None = None
    """Why the case could not be carried out; it counts as missed."""

    @property
    def is_right(self) -> bool:
        """A fault named first, or a control left alone."""
        if self.error is not None:
            return False
        if self.case.is_control:
            return not self.named and self.verdict == "passed"
        return bool(self.named) and self.named[0][0] in self.case.causes

    @property
    def is_in_top_2(self) -> bool:
        """A fault among the first two."""
        return self.error is None and any(name in self.case.causes for name, _ in self.named[:2])
