"""Looks for causes: the reference drafter along the target's own texts, and what happens when it is changed.

texts -> the target once -> the unchanged drafter -> is the engine as good?
                                                  -> interventions: would another setting be better?
                                                  -> reproductions: which defect drafts like the engine?
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dflash_doctor.checkpoints.tokenizer_file import read_tokenizer
from dflash_doctor.contract.pair import PairContract, Reading
from dflash_doctor.errors import DoctorError, EngineMissingError
from dflash_doctor.evidence import Evidence, RequestTrace, requests_of
from dflash_doctor.experiments.base import Subject, TrialPlan
from dflash_doctor.experiments.interventions.catalog import interventions
from dflash_doctor.experiments.reproductions.catalog import reproductions
from dflash_doctor.experiments.search import Counts, Search, Split, split_texts
from dflash_doctor.metrics.divergence import first_divergence
from dflash_doctor.plan import Plan
from dflash_doctor.probes.arms import Keep, Watcher
from dflash_doctor.reference.client import HostedReference, require_reference
from dflash_doctor.reference.knobs import Knobs
from dflash_doctor.reference.messages import EngineStep, Measured, ReferenceOptions, Text, TextRead
from dflash_doctor.trials import ExperimentEvidence, ReferenceEvidence, ReferenceText, Trial

_MOST_TEXTS = 100
_MOST_ANSWER_TOKENS = 512
"""Of a long answer the beginning is as good as the whole."""
_MIN_ANSWER_TOKENS = 3
_ENGINE_DIFFERS = 0.97
"""Below this share of equal draft tokens, rounding no longer explains the difference."""


@dataclass(frozen=True)
class _Material:
    """Texts to experiment on, with where they come from."""

    traces: tuple[RequestTrace, ...]
    texts: tuple[Text, ...]
    comparable: tuple[bool, ...]
    """Whether the engine's steps belong to this very text, whole."""
    split: Split


def observe_experiments(
    plan: Plan, evidence: Evidence, *, log_path: Path, watcher: Watcher, keep: Keep
) -> Evidence:
    """The evidence with what experiments showed; what could not be tried is said and nothing raises.

    `keep` is given the evidence whenever it has grown.
    """
    reason = _why_not(plan, evidence)
    if reason is not None:
        return with_experiments(evidence, (), (reason,))
    material = _material(evidence, seed=plan.settings.seed)
    if material is None:
        why = f"no greedy answer of {_MIN_ANSWER_TOKENS} tokens or more to experiment on"
        return with_experiments(evidence, (), (why,))
    started = time.monotonic()
    bench = _Bench(plan, evidence, material, started, watcher, keep)
    try:
        bench.run(log_path)
    except DoctorError as error:
        bench.not_tried.append(f"{error.what} ({error.seen})" if error.seen else error.what)
    return bench.settled()


def _why_not(plan: Plan, evidence: Evidence) -> str | None:
    settings, contract = plan.settings, plan.contract
    if settings.experiments == "off":
        return "experiments are switched off"
    if settings.temperature != 0:
        return "experiments need greedy answers; the temperature is above 0"
    draft = contract.draft_config if contract is not None else None
    if contract is None or draft is None or contract.reading(settings.reader) is None:
        return "there is no drafter whose config could be read"
    if not draft.is_block_drafter:
        return f"the reference runs DFlash drafters; this one is of the family {draft.dialect}"
    folders = (contract.target.folder, contract.draft.folder if contract.draft else None)
    if not all(folder is not None and Path(folder).is_dir() for folder in folders):
        return "the checkpoints do not lie on this machine"
    try:
        require_reference()
    except EngineMissingError as error:
        return f"{error.what} ({error.seen}); {error.remedy}"
    return None


class _Bench:
    """One series of experiments."""

    def __init__(
        self,
        plan: Plan,
        evidence: Evidence,
        material: _Material,
        started: float,
        watcher: Watcher,
        keep: Keep,
    ) -> None:
        self._plan = plan
        self._evidence = evidence
        self._material = material
        self._started = started
        self._watcher = watcher
        self._keep = keep
        self._reference: ReferenceEvidence | None = None
        self._searches: list[Search] = []
        self.not_tried: list[str] = []

    def settled(self) -> Evidence:
        """The evidence with all that was seen so far."""
        stopped = [search.stopped for search in self._searches if search.stopped]
        trials = [trial for search in self._searches for trial in search.trials]
        spent = time.monotonic() - self._started
        grown = with_experiments(self._evidence, trials, self.not_tried, spent)
        assert grown.experiments is not None, "just put there"
        found = msgspec.structs.replace(
            grown.experiments,
            reference=self._reference,
            budget_s=self._plan.settings.budget,
            stopped="; ".join(stopped) or None,
        )
        return msgspec.structs.replace(grown, experiments=found)

    def run(self, log_path: Path) -> None:
        """Load the reference and experiment until done or out of time."""
        contract, settings = self._plan.contract, self._plan.settings
        assert contract is not None, "the caller looked"
        reading = contract.reading(settings.reader)
        assert reading is not None, "the caller looked"
        assert contract.draft is not None, "the caller looked"
        self._watcher.phase("experimenting", "loading the reference drafter")
        options = ReferenceOptions(
            target=contract.target.folder or "",
            draft=contract.draft.folder or "",
            reader=settings.reader,
            num_draft_tokens=self._plan.num_speculative_tokens,
        )
        with HostedReference.start(
            options, log_path=str(log_path), start_timeout_s=settings.start_timeout
        ) as reference:
            subject = _subject(contract, reading, reference, self._material.texts)
            plans = list(interventions(subject))
            self._read(reference, plans, subject)
            self._keep(self.settled())
            engine_differs = self._engine_differs()
            kinds = ["reproduction", "intervention"] if engine_differs else ["intervention"]
            for kind in kinds:
                if kind == "intervention":
                    self._search_interventions(reference, plans)
                else:
                    self._search_reproductions(reference, reproductions(subject))
                self._keep(self.settled())

    def _read(self, reference: HostedReference, plans: Iterable[TrialPlan], subject: Subject) -> None:
        """The target along every text, then the unchanged drafter."""
        texts, numbers = self._material.texts, range(len(self._material.texts))
        layers = set(subject.facts.taps)
        layers.update(tap for plan in plans for tap in plan.knobs.taps or ())
        self._watcher.phase("experimenting", "the target along its own texts")
        reads = reference.read_texts(texts, sorted(layers), on_progress=self._watcher.progress)
        self._watcher.phase("experimenting", "the drafter as its files describe it")
        measured = reference.measure(Knobs(), numbers, on_progress=self._watcher.progress)
        shuffled = reference.measure(Knobs(context_shuffled=True), self._material.split.screening)
        by_number = dict(zip(self._material.split.screening, shuffled, strict=True))
        self._measured = measured
        facts = reference.facts
        self._reference = ReferenceEvidence(
            reader=self._plan.settings.reader,
            device=facts.device,
            dtype=facts.dtype,
            num_draft_tokens=facts.num_draft_tokens,
            texts=tuple(
                self._text(number, read, own, by_number.get(number))
                for number, (read, own) in enumerate(zip(reads, measured, strict=True))
            ),
            profile=reference.profile(tuple(numbers)),
            missing_tensors=facts.missing_tensors,
            ignored_tensors=facts.ignored_tensors,
            zero_tensors=facts.zero_tensors,
            num_non_finite_states=sum(read.num_non_finite for read in reads),
            duration_s=round(time.monotonic() - self._started, 3),
        )

    def _text(self, number: int, read: TextRead, own: Measured, shuffled: Measured | None) -> ReferenceText:
        trace, whole = self._material.traces[number], self._material.comparable[number]
        has_steps = bool(self._material.texts[number].engine_steps)
        return ReferenceText(
            prompt_id=trace.prompt_id,
            category=trace.category,
            num_prompt_tokens=len(trace.prompt_ids),
            accepted=own.accepted,
            steps=own.steps,
            steps_shuffled=len(shuffled.steps) if shuffled is not None else None,
            target_equal=read.target_equal,
            num_answer_tokens=read.num_answer_tokens,
            engine_steps=len(self._material.texts[number].engine_steps) if has_steps and whole else None,
            engine_equal=own.engine_equal if has_steps else None,
            engine_compared=own.engine_compared if has_steps else None,
            engine_offsets=own.engine_offsets,
            equal_after_rejection=own.equal_after_rejection,
        )

    def _engine_differs(self) -> bool:
        """Whether the engine drafts other tokens than the reference, beyond rounding."""
        compared = sum(item.engine_compared for item in self._measured)
        equal = sum(item.engine_equal for item in self._measured)
        return compared > 0 and equal < _ENGINE_DIFFERS * compared

    def _search_interventions(self, reference: HostedReference, plans: Sequence[TrialPlan]) -> None:
        steps = {number: len(item.steps) for number, item in enumerate(self._measured)}

        def measure(knobs: Knobs, numbers: Sequence[int]) -> Counts:
            found = reference.measure(knobs, numbers)
            return Counts({number: len(item.steps) for number, item in zip(numbers, found, strict=True)})

        search = Search(
            kind="intervention",
            measure_name="verify-steps",
            measure=measure,
            unchanged=Counts(steps),
            prompt_ids=[trace.prompt_id for trace in self._material.traces],
            split=self._material.split,
            deadline=self._deadline,
            progress=self._trying("interventions"),
        )
        self._run(search, plans)

    def _search_reproductions(self, reference: HostedReference, plans: Iterable[TrialPlan]) -> None:
        usable = [number for number, item in enumerate(self._measured) if item.engine_compared]

        def counts(found: Iterable[Measured], numbers: Sequence[int]) -> Counts:
            pairs = list(zip(numbers, found, strict=True))
            return Counts(
                {number: item.engine_equal for number, item in pairs},
                {number: item.engine_compared for number, item in pairs},
            )

        def measure(knobs: Knobs, numbers: Sequence[int]) -> Counts:
            return counts(reference.measure(knobs, numbers, engine_only=True), numbers)

        split = self._material.split
        search = Search(
            kind="reproduction",
            measure_name="equal-drafts",
            measure=measure,
            unchanged=counts(self._measured, range(len(self._measured))),
            prompt_ids=[trace.prompt_id for trace in self._material.traces],
            split=Split(
                tuple(number for number in split.screening if number in usable),
                tuple(number for number in split.confirmation if number in usable),
            ),
            max_rounds=3,
            deadline=self._deadline,
            progress=self._trying("the engine's drafts"),
        )
        self._run(search, plans)

    def _run(self, search: Search, plans: Iterable[TrialPlan]) -> None:
        self._searches.append(search)
        search.run(plans)

    @property
    def _deadline(self) -> float:
        return self._started + self._plan.settings.budget

    def _trying(self, what: str) -> Callable[[str, int, int], None]:
        self._watcher.phase("experimenting", what)

        def tell(change: str, done: int, total: int) -> None:
            self._watcher.trying(change)
            self._watcher.progress(done, total)

        return tell


def with_experiments(
    evidence: Evidence, trials: Iterable[Trial], not_tried: Iterable[str] = (), spent_s: float = 0.0
) -> Evidence:
    """The evidence with more trials, and more that could not be tried."""
    found = evidence.experiments or ExperimentEvidence()
    found = msgspec.structs.replace(
        found,
        trials=(*found.trials, *trials),
        not_tried=(*found.not_tried, *not_tried),
        spent_s=round(found.spent_s + spent_s, 3),
    )
    return msgspec.structs.replace(evidence, experiments=found)


def _subject(
    contract: PairContract, reading: Reading, reference: HostedReference, texts: Sequence[Text]
) -> Subject:
    added: dict[int, str] = {}
    if contract.target.folder is not None:
        tokenizer = read_tokenizer(Path(contract.target.folder))
        added = {token_id: tokenizer.tokens.get(token_id, "") for token_id in tokenizer.added}
    return Subject(
        contract=contract,
        reading=reading,
        facts=reference.facts,
        special_ids=tuple(sorted(added, key=lambda item: ("mask" not in added[item].lower(), item))),
        longest_text=max(len(text.token_ids) for text in texts),
    )


def _material(evidence: Evidence, *, seed: int) -> _Material | None:
    """Texts of the target alone, else of the speculative pass, in a random order within each category."""
    own = evidence.target_only if evidence.target_only is not None else evidence.speculative
    traces = [trace for trace in requests_of(own) if len(trace.output_ids) >= _MIN_ANSWER_TOKENS]
    if not traces:
        return None
    random.Random(seed).shuffle(traces)
    chosen = _evenly(traces, _MOST_TEXTS)
    by_id = {trace.prompt_id: trace for trace in requests_of(evidence.speculative)}
    texts, comparable = [], []
    for trace in chosen:
        answer = trace.output_ids[:_MOST_ANSWER_TOKENS]
        other = by_id.get(trace.prompt_id)
        steps, whole = _engine_steps(other, trace, len(answer)) if other is not None else ((), False)
        texts.append(
            Text(
                token_ids=trace.prompt_ids + answer,
                num_prompt_tokens=len(trace.prompt_ids),
                engine_steps=steps,
            )
        )
        comparable.append(whole and len(answer) == len(trace.output_ids))
    split = split_texts([trace.category for trace in chosen])
    return _Material(tuple(chosen), tuple(texts), tuple(comparable), split)


def _evenly(traces: Sequence[RequestTrace], most: int) -> list[RequestTrace]:
    """At most so many, as evenly over the categories as they come."""
    queues: dict[str, list[RequestTrace]] = {}
    for trace in traces:
        queues.setdefault(trace.category, []).append(trace)
    chosen: list[RequestTrace] = []
    while len(chosen) < most and any(queues.values()):
        for queue in queues.values():
            if queue and len(chosen) < most:
                chosen.append(queue.pop(0))
    return chosen


def _engine_steps(
    speculative: RequestTrace, own: RequestTrace, num_answer: int
) -> tuple[tuple[EngineStep, ...], bool]:
    """The engine's steps along the part of the text that both share, and whether that is all of it."""
    if speculative.prompt_ids != own.prompt_ids:
        return (), False
    parted = first_divergence(speculative.output_ids, own.output_ids)
    shared = len(own.prompt_ids) + (num_answer if parted is None else min(parted, num_answer))
    steps = tuple(
        EngineStep(step.position - 1, step.draft_ids)
        for step in speculative.steps or ()
        if step.position is not None and step.draft_ids and step.position - 1 < shared
    )
    return steps, parted is None
