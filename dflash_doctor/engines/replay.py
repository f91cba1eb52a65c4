"""Engine `replay`: a recorded run, judged or queried again without the machine that produced it.

To judge a run again, `recorded_evidence` is all it takes. The engine itself answers questions that the
record can answer with certainty (the same token ids, the same parameters) and refuses the others: an
answer that only looks like the recorded one would be worse than none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from dflash_doctor import __version__
from dflash_doctor.engines.base import (
    Capabilities,
    Continuation,
    Conversation,
    Engine,
    EngineOptions,
    ProgressCallback,
    Sampling,
    TokenizedPrompt,
)
from dflash_doctor.errors import EngineError, RecordError
from dflash_doctor.evidence import EngineFacts, Evidence, Generation, RequestTrace
from dflash_doctor.records import RunRecord
from dflash_doctor.runs import TRACES_NAME, read_record, read_traces


def recorded_evidence(run: Path) -> Evidence:
    """The evidence of a recorded run.

    Raises:
        RecordError: there is no record or no trace file.
    """
    return _read(run)[1]


def _read(run: Path) -> tuple[RunRecord, Evidence]:
    record, folder = read_record(run)
    return record, read_traces(folder / (record.artifacts.traces or TRACES_NAME))


def open_engine(options: EngineOptions) -> Engine:
    """The recorded arm as an engine.

    Raises:
        RecordError: no run was named, or it has no such arm.
    """
    if options.replay is None:
        raise RecordError("no recorded run was named", seen="replay", remedy="give --replay RUN")
    record, evidence = _read(Path(options.replay))
    return ReplayEngine(record, evidence, options)


class ReplayEngine:
    """Answers from evidence; asked for anything that was not recorded, it says so."""

    name = "replay"

    def __init__(self, record: RunRecord, evidence: Evidence, options: EngineOptions) -> None:
        self._evidence = evidence
        self._workload = record.workload
        self._arm = options.arm
        self._closed = False
        self._scores = _recorded_scores(evidence)
        if self._pass(capture=True) is None:
            raise RecordError(
                f"the recorded run has no {options.arm} arm",
                seen=str(options.replay),
                remedy="record it again to the end",
            )

    @property
    def capabilities(self) -> Capabilities:
        """What was recorded can be asked again; scores are there where outputs parted and were scored."""
        level = self._evidence.level or "request"
        return Capabilities(
            level=level if self._arm == "speculative" else "request",
            arms=(self._arm,),
            can_score=bool(self._scores),
            can_sample=self._workload is not None and self._workload.temperature > 0,
            can_render=False,
        )

    def describe(self) -> EngineFacts:
        """The facts of the engine that was recorded, under its own name; this engine's where none are."""
        self._require_open()
        facts = self._evidence.facts
        return facts if facts is not None else EngineFacts(name=self.name, version=__version__)

    def recorded_prompts(self) -> tuple[TokenizedPrompt, ...]:
        """The recorded requests as token ids."""
        self._require_open()
        generation = self._pass(capture=True)
        assert generation is not None, "checked when opened"
        return tuple(
            TokenizedPrompt(prompt_id=trace.prompt_id, category=trace.category, token_ids=trace.prompt_ids)
            for trace in generation.requests
        )

    def render(self, conversations: Sequence[Conversation], *, thinking: str) -> tuple[tuple[int, ...], ...]:
        """A record holds no tokenizer: take `recorded_prompts`."""
        self._require_open()
        self._cannot("render a conversation")

    def token_texts(self, token_ids: Sequence[int]) -> dict[int, str]:
        """Texts of the recorded tokens; unknown ids are left out."""
        self._require_open()
        texts = self._evidence.token_texts
        return {token: texts[token] for token in token_ids if token in texts}

    def special_token_ids(self) -> dict[str, int]:
        """The thinking markers, where the record has them."""
        self._require_open()
        thinking = self._evidence.thinking
        if thinking is None:
            return {}
        return {"<think>": thinking.start_id, "</think>": thinking.end_id}

    def chat_template(self) -> str | None:
        """A record holds only its hash."""
        self._require_open()
        return None

    def generate(
        self,
        prompts: Sequence[TokenizedPrompt],
        sampling: Sampling,
        *,
        capture: bool,
        logprobs: bool = False,
        max_concurrency: int | None = None,
        fresh: bool = True,
        on_progress: ProgressCallback | None = None,
    ) -> Generation:
        """The recorded answers to these prompts, in their order.

        Raises:
            EngineError: a prompt was not recorded, or with other token ids; the run decoded with other
                parameters; no such pass, or no log-probabilities, were recorded.
        """
        self._require_open()
        self._require_recorded(sampling)
        if not fresh:
            self._cannot("decode from a warm cache")
        generation = self._pass(capture=capture)
        if generation is None:
            self._cannot("decode without capture: no timing pass was recorded")
        by_id = {trace.prompt_id: trace for trace in generation.requests}
        found = []
        for prompt in prompts:
            trace = by_id.get(prompt.prompt_id)
            if trace is None or trace.prompt_ids != prompt.token_ids:
                self._cannot(f"decode {prompt.prompt_id}: it was not recorded with these tokens")
            if logprobs and trace.output_logprobs is None:
                self._cannot("give log-probabilities: the pass was recorded without")
            found.append(trace)
        if on_progress is not None:
            on_progress(len(found), len(prompts))
        return Generation(
            arm=generation.arm,
            requests=tuple(found),
            captured=generation.captured,
            capture=generation.capture,
            duration_s=generation.duration_s if len(found) == len(generation.requests) else None,
            max_concurrency=generation.max_concurrency,
        )

    def score(self, continuations: Sequence[Continuation]) -> tuple[tuple[float, ...], ...]:
        """Recorded scores of the places where outputs parted.

        Raises:
            EngineError: the prefix or the token was not scored in the recorded run.
        """
        self._require_open()
        found = []
        for item in continuations:
            known = self._scores.get(item.prefix_ids, {})
            if any(token not in known for token in item.token_ids):
                self._cannot("score a continuation that was not scored when it ran")
            found.append(tuple(known[token] for token in item.token_ids))
        return tuple(found)

    def close(self) -> None:
        """Nothing runs; later calls are refused as with any engine."""
        self._closed = True

    def __enter__(self) -> ReplayEngine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _pass(self, *, capture: bool) -> Generation | None:
        if self._arm == "target-only":
            return self._evidence.target_only
        return self._evidence.speculative if capture else self._evidence.speculative_timing

    def _require_recorded(self, sampling: Sampling) -> None:
        """Raise unless these are the parameters of the recorded run, as far as it says."""
        for name in ("max_tokens", "temperature"):
            recorded, asked = getattr(self._workload, name, None), getattr(sampling, name)
            if recorded is not None and recorded != asked:
                self._cannot(f"decode with {name} {asked:g}: the run had {recorded:g}")

    def _require_open(self) -> None:
        if self._closed:
            self._cannot("answer after it was closed")

    def _cannot(self, what: str) -> NoReturn:
        raise EngineError(f"a recorded run cannot {what}", seen="engine replay", remedy="use a live engine")


def _recorded_scores(evidence: Evidence) -> dict[tuple[int, ...], dict[int, float]]:
    """By prefix: the target's log-probability of each token that was scored after it."""
    requests: dict[str, RequestTrace] = {}
    if evidence.target_only is not None:
        requests = {trace.prompt_id: trace for trace in evidence.target_only.requests}
    found: dict[tuple[int, ...], dict[int, float]] = {}
    for divergence in evidence.divergences or ():
        trace = requests.get(divergence.prompt_id)
        if trace is None:
            continue
        prefix = trace.prompt_ids + trace.output_ids[: divergence.index]
        for token, logprob in (
            (divergence.target_id, divergence.target_logprob),
            (divergence.speculative_id, divergence.speculative_logprob),
        ):
            if token is not None and logprob is not None:
                found.setdefault(prefix, {})[token] = logprob
    return found
