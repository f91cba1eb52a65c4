"""Carries out plans: screens all of them on some texts, confirms the promising ones on others.

The texts on which a plan was picked from many cannot judge it: the best of forty harmless changes looks good
by luck. So only the confirmation, on texts that had no part in the choice, can name a cause, and its interval
needs no correction for the number of plans that were screened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from dflash_doctor.errors import DoctorError
from dflash_doctor.experiments.base import TrialPlan
from dflash_doctor.reference.knobs import Knobs
from dflash_doctor.trials import Measure, Trial, TrialCounts, TrialKind

_NUM_SCREENED = 24
_MOST_CONFIRMED = 4
"""Causes whose best plan is confirmed."""
_PROMISING_STEPS = 0.985
"""Of the steps before; a loss that small shows on no set of texts of this size."""
_PROMISING_EQUAL = 0.01
_CLEAR_STEPS = 0.75
_CLEAR_GAP = 0.6
"""Share of the unequal drafts that a defect must explain to end the search."""

LOOKALIKES: Mapping[str, frozenset[str]] = {
    "rotary-theta": frozenset({"rotary-partial-factor", "rotary-layout"}),
    "rotary-partial-factor": frozenset({"rotary-theta", "rotary-layout"}),
    "rotary-layout": frozenset({"rotary-theta", "rotary-partial-factor", "target-layer-ids-shifted"}),
    "target-layer-ids-shifted": frozenset({"rotary-layout", "draft-layers-reordered"}),
    "target-layer-ids-missing": frozenset({"rotary-layout"}),
    "draft-vocab-map-broken": frozenset({"target-head-not-shared", "draft-head-overwritten"}),
    "target-head-not-shared": frozenset({"draft-vocab-map-broken", "embedding-scale-missing"}),
    "draft-head-overwritten": frozenset({"draft-vocab-map-broken"}),
    "draft-position-error": frozenset({"block-layout-anchor", "draft-context-polluted"}),
    "block-layout-anchor": frozenset({"draft-position-error"}),
    "sliding-window-ignored": frozenset({"draft-context-holes", "draft-max-length", "causal-flag"}),
    "draft-context-holes": frozenset({"sliding-window-ignored", "draft-max-length"}),
}
"""Causes that look alike from outside: still tried when one of them has been found."""


@dataclass(frozen=True)
class Split:
    """Texts for picking and texts for judging, by number."""

    screening: tuple[int, ...]
    confirmation: tuple[int, ...]


def split_texts(categories: Sequence[str]) -> Split:
    """Texts of every category on both sides; about a quarter, at most 24, to pick on.

    Args:
        categories: of each text, in random order within a category.
    """
    by_category: dict[str, list[int]] = {}
    for index, name in enumerate(categories):
        by_category.setdefault(name, []).append(index)
    queues = [list(members) for members in by_category.values()]
    order = [queue.pop(0) for _ in range(max(map(len, queues), default=0)) for queue in queues if queue]
    count = min(_NUM_SCREENED, max(1, len(order) // 3))
    return Split(tuple(sorted(order[:count])), tuple(sorted(order[count:])))


class Counts:
    """Counts by text of an unchanged or changed run: steps, or equal drafts of those compared."""

    def __init__(self, counts: Mapping[int, int], sizes: Mapping[int, int] | None = None) -> None:
        self.counts = counts
        self.sizes = sizes or {}


MeasureCounts = Callable[[Knobs, Sequence[int]], Counts]


@dataclass
class Search:
    """One search over plans of a kind."""

    kind: TrialKind
    measure_name: Measure
    measure: MeasureCounts
    unchanged: Counts
    """Of all texts."""
    prompt_ids: Sequence[str]
    split: Split
    deadline: float
    """On `time.monotonic`'s clock."""
    progress: Callable[[str, int, int], None]
    """Told what is being tried, and how far along."""
    trials: list[Trial] = field(default_factory=list)
    not_tried: list[str] = field(default_factory=list)
    stopped: str | None = None

    def run(self, plans: Iterable[TrialPlan]) -> None:
        """Screen, confirm, and stop early once a cause is found or time is up."""
        todo = list(plans)
        found: str | None = None
        screened: dict[str, tuple[TrialPlan, Trial]] = {}
        for number, plan in enumerate(todo):
            if found is not None and plan.cause != found and plan.cause not in LOOKALIKES.get(found, ()):
                continue
            if self._out_of_time(len(todo) - number):
                break
            self.progress(plan.change, number, len(todo))
            trial = self._screened(plan)
            screened[plan.name] = (plan, trial)
            if found is None and trial.screening is not None and self._is_clear(trial.screening):
                trial = self._confirmed(plan, trial)
                screened[plan.name] = (plan, trial)
                if trial.confirmation is None or self._is_clear(trial.confirmation):
                    found = plan.cause
                    self.stopped = f"{plan.change} explains the loss; only what looks like it was tried on"
        self._confirm_best(screened)
        self.trials = [trial for _, trial in screened.values()]

    def _out_of_time(self, left: int) -> bool:
        if time.monotonic() < self.deadline:
            return False
        self.stopped = f"the budget was spent with {left} experiments left; raise --budget"
        return True

    def _confirm_best(self, screened: dict[str, tuple[TrialPlan, Trial]]) -> None:
        """Confirm the best plan of each promising cause."""
        best: dict[str, tuple[float, TrialPlan, Trial]] = {}
        for plan, trial in screened.values():
            if trial.screening is None:
                continue
            gain = self._gain(trial.screening)
            if self._is_promising(trial.screening) and gain > best.get(plan.cause, (0.0,))[0]:
                best[plan.cause] = (gain, plan, trial)
        ranked = sorted(best.values(), key=lambda item: -item[0])[:_MOST_CONFIRMED]
        for number, (_, plan, trial) in enumerate(ranked):
            if trial.confirmation is None and self.split.confirmation:
                if self._out_of_time(len(ranked) - number):
                    return
                self.progress(f"confirming: {plan.change}", number, len(ranked))
                screened[plan.name] = (plan, self._confirmed(plan, trial))

    def _screened(self, plan: TrialPlan) -> Trial:
        started = time.monotonic()
        trial = Trial(
            name=plan.name,
            kind=self.kind,
            cause=plan.cause,
            change=plan.change,
            measure=self.measure_name,
            remedy=plan.remedy,
            knobs=plan.knobs.changes(),
        )
        try:
            counts = self._counts(plan.knobs, self.split.screening)
        except DoctorError as error:
            return msgspec.structs.replace(trial, failed=f"{error.what}: {error.seen}")
        duration = round(time.monotonic() - started, 3)
        return msgspec.structs.replace(trial, screening=counts, duration_s=duration)

    def _confirmed(self, plan: TrialPlan, trial: Trial) -> Trial:
        if not self.split.confirmation:
            return trial
        started = time.monotonic()
        counts = self._counts(plan.knobs, self.split.confirmation)
        duration = round(trial.duration_s + time.monotonic() - started, 3)
        return msgspec.structs.replace(trial, confirmation=counts, duration_s=duration)

    def _counts(self, knobs: Knobs, numbers: Sequence[int]) -> TrialCounts:
        after, before = self.measure(knobs, numbers), self.unchanged
        return TrialCounts(
            prompt_ids=tuple(self.prompt_ids[number] for number in numbers),
            before=tuple(before.counts[number] for number in numbers),
            after=tuple(after.counts[number] for number in numbers),
            size_before=tuple(before.sizes[number] for number in numbers) if before.sizes else (),
            size_after=tuple(after.sizes[number] for number in numbers) if after.sizes else (),
        )

    def _gain(self, counts: TrialCounts) -> float:
        """Above zero where the change is for the better."""
        if self.measure_name == "verify-steps":
            return 1 - sum(counts.after) / max(1, sum(counts.before))
        return (sum(counts.after) - sum(counts.before)) / max(1, sum(counts.size_before))

    def _is_promising(self, counts: TrialCounts) -> bool:
        if self.measure_name == "verify-steps":
            return self._gain(counts) >= 1 - _PROMISING_STEPS
        return self._gain(counts) >= _PROMISING_EQUAL

    def _is_clear(self, counts: TrialCounts) -> bool:
        if self.measure_name == "verify-steps":
            return self._gain(counts) >= 1 - _CLEAR_STEPS
        gap = 1 - sum(counts.before) / max(1, sum(counts.size_before))
        return gap > 0 and self._gain(counts) >= _CLEAR_GAP * gap and self._is_promising(counts)
