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
_NUM_FIRST = 8
"""Texts after which a change that makes things much worse is given up."""
_HOPELESS = 0.1
_MOST_CONFIRMED = 4
"""Causes whose best plan is confirmed."""
_PROMISING_STEPS = 0.985
"""Of the steps before; a loss that small shows on no set of texts of this size."""
_PROMISING_EQUAL = 0.01
_CLEAR_STEPS = 0.75
_CLEAR_GAP = 0.6
"""Share of the unequal drafts that a defect must explain to end a round."""
_ENOUGH_GAP = 0.3
"""Share that it must explain to be kept in for the next round."""
_EXPLAINED = 0.97
"""Share of equal drafts at which rounding explains the rest."""

LOOKALIKES: Mapping[str, frozenset[str]] = {
    "mask-token-wrong": frozenset(
        {"embedding-scale-missing", "target-head-not-shared", "draft-vocab-map-broken", "rotary-theta"}
    ),
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
    max_rounds: int = 1
    trials: list[Trial] = field(default_factory=list)
    stopped: str | None = None
    _base: Knobs = field(default_factory=Knobs)
    """What was found so far, kept in."""

    def run(self, plans: Iterable[TrialPlan]) -> None:
        """Screen, confirm, and stop early once a cause is found or time is up.

        Where something is left unexplained, what was found is kept in and the rest is tried on top of it: two
        defects at once hide each other.
        """
        todo = list(plans)
        for number in range(self.max_rounds):
            found = self._round(todo, number)
            if found is None or number + 1 == self.max_rounds or self._is_out_of_time():
                return
            self._base = merged(self._base, found.knobs)
            everything = (*self.split.screening, *self.split.confirmation)
            self.unchanged = self.measure(self._base, everything)
            if self._is_explained():
                return
            todo = [plan for plan in todo if plan.cause != found.cause]

    def _round(self, todo: Sequence[TrialPlan], number: int) -> TrialPlan | None:
        """One pass over the plans; the one that explains most, if one does."""
        clear: TrialPlan | None = None
        screened: dict[str, tuple[TrialPlan, Trial]] = {}
        for index, plan in enumerate(todo):
            if clear is not None and plan.cause not in {clear.cause, *LOOKALIKES.get(clear.cause, ())}:
                continue
            if self._is_out_of_time():
                self.stopped = (
                    f"the budget was spent with {len(todo) - index} experiments left; raise --budget"
                )
                break
            self.progress(plan.change, index, len(todo))
            trial = self._screened(plan)
            if clear is None and trial.screening is not None and self._is_clear(trial.screening):
                trial = self._confirmed(plan, trial)
                if trial.confirmation is None or self._is_clear(trial.confirmation):
                    clear = plan
            screened[plan.name] = (plan, trial)
        self._confirm_best(screened)
        if clear is not None:
            self.stopped = f"{clear.change} explains the loss; only what looks like it was tried on"
        again = {trial.name for trial in self.trials}
        # Of a later round only what it found is news: the rest was tried before, on a worse base.
        self.trials += [
            trial
            for name, (_, trial) in screened.items()
            if name not in again or trial.confirmation is not None
        ]
        return self._best_confirmed(screened)

    def _best_confirmed(self, screened: Mapping[str, tuple[TrialPlan, Trial]]) -> TrialPlan | None:
        """The plan whose confirmation gains most, where that is enough to go on from it."""
        gains = [
            (self._gain(trial.confirmation), plan)
            for plan, trial in screened.values()
            if trial.confirmation is not None and self._is_enough(trial.confirmation)
        ]
        return max(gains, key=lambda item: item[0])[1] if gains else None

    def _is_out_of_time(self) -> bool:
        return time.monotonic() >= self.deadline

    def _is_explained(self) -> bool:
        """Whether too little is left to look for; only a share of equal drafts tells."""
        if not self.unchanged.sizes:
            return True
        equal, compared = sum(self.unchanged.counts.values()), sum(self.unchanged.sizes.values())
        return equal >= _EXPLAINED * compared

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
                if self._is_out_of_time():
                    self.stopped = "the budget was spent before the best could be confirmed; raise --budget"
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
        knobs, numbers = merged(self._base, plan.knobs), self.split.screening
        try:
            counts = self._counts(knobs, numbers[:_NUM_FIRST])
            if len(numbers) > _NUM_FIRST and self._gain(counts) > -_HOPELESS:
                counts = _joined(counts, self._counts(knobs, numbers[_NUM_FIRST:]))
        except DoctorError as error:
            return msgspec.structs.replace(trial, failed=f"{error.what}: {error.seen}")
        duration = round(time.monotonic() - started, 3)
        return msgspec.structs.replace(trial, screening=counts, duration_s=duration)

    def _confirmed(self, plan: TrialPlan, trial: Trial) -> Trial:
        if not self.split.confirmation:
            return trial
        started = time.monotonic()
        counts = self._counts(merged(self._base, plan.knobs), self.split.confirmation)
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

    def _is_enough(self, counts: TrialCounts) -> bool:
        if self.measure_name == "verify-steps":
            return self._is_promising(counts)
        gap = 1 - sum(counts.before) / max(1, sum(counts.size_before))
        return gap > 0 and self._gain(counts) >= _ENOUGH_GAP * gap


def merged(base: Knobs, more: Knobs) -> Knobs:
    """Both changes at once; where they touch one knob, the second."""
    return msgspec.structs.replace(base, **{name: getattr(more, name) for name in more.changes()})


def _joined(first: TrialCounts, second: TrialCounts) -> TrialCounts:
    return TrialCounts(
        **{name: (*getattr(first, name), *getattr(second, name)) for name in TrialCounts.__struct_fields__}
    )
