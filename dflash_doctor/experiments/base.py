"""What is tried: a plan names one change to the reference drafter, and the cause it would prove.

One file per idea. An *intervention* turns a knob that may be set wrong: the same texts taking fewer verify
steps means that it was. A *reproduction* puts in a defect that an engine may have: drafts nearer to the
engine's own mean that it has. Members only list plans; the planner decides what is carried out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from dflash_doctor.contract.pair import PairContract, Reading
from dflash_doctor.reference.knobs import Knobs
from dflash_doctor.reference.messages import ReferenceFacts


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The pair that is experimented on."""

    contract: PairContract
    reading: Reading
    """The engine's: what the unchanged reference follows."""
    facts: ReferenceFacts
    special_ids: tuple[int, ...] = ()
    """Ids of added tokens of the target's tokenizer, those that sound like a mask first."""
    longest_text: int = 0
    """Tokens."""

    @property
    def trained(self) -> Reading:
        """The reading of the drafter's own trainer."""
        return self.contract.trained if self.contract.trained is not None else self.reading

    def where(self, field: str, default: str) -> str:
        """Key path of a field of the draft config, as it stands in the file."""
        draft = self.contract.draft_config
        return draft.sources.get(field, default) if draft is not None else default

    def edit(self, field: str, default: str, value: object) -> str:
        """The edit of the draft config that makes the change last."""
        draft = self.contract.draft
        file = draft.config_file if draft is not None and draft.config_file else "the draft config"
        return f"set {self.where(field, default)} = {value} in {file}"


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """One change worth trying."""

    name: str
    """Unique: `rotary-theta 10000`."""
    cause: str
    knobs: Knobs
    change: str
    """In words, with values: `rope_theta 1e+06 -> 10000`."""
    remedy: str = ""


class Planner(Protocol):
    """The one function of a member."""

    def __call__(self, subject: Subject) -> Iterable[TrialPlan]: ...


def distinct(plans: Iterable[TrialPlan]) -> Iterator[TrialPlan]:
    """The plans without those whose change an earlier one makes too."""
    seen: list[Knobs] = []
    for plan in plans:
        if plan.knobs not in seen:
            seen.append(plan.knobs)
            yield plan


def number(value: float) -> str:
    """A number as a config would spell it: 10000, 1e+06, 0.5."""
    return f"{value:g}" if value >= 1e6 or value != int(value) else str(int(value))
