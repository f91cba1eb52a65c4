"""Runs both arms of a pair and collects what they show.

Order: the speculative arm first (its answers freeze multi-turn conversations), captured, then once more
uncaptured for timing; then the target-only arm, which also measures its own numeric noise and scores
the places where the two texts part. Each arm has an engine of its own, one after the other, so that a
GPU holds one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from dflash_doctor.engines.base import Engine, Sampling, TokenizedPrompt
from dflash_doctor.errors import EngineError
from dflash_doctor.evidence import Evidence, Generation, Missing, ThinkingTokens
from dflash_doctor.probes.conversations import decode_workload
from dflash_doctor.probes.divergences import find_divergences, score_divergences
from dflash_doctor.probes.noise import measure_noise
from dflash_doctor.workloads.prompts import Prompt

_NOISE_MAX_TOKENS = 64
_NOISE_NUM_PROMPTS = 8
"""Enough positions (512) to see rounding noise; few enough to decode one at a time on a slow machine."""


Keep = Callable[[Evidence], None]


class Watcher(Protocol):
    """Told what is going on."""

    def phase(self, name: str, detail: str = "") -> None:
        """A new stretch of work begins."""

    def progress(self, done: int, total: int) -> None:
        """Requests done, requests in all."""

    def trying(self, what: str) -> None:
        """What is being tried within the phase."""


def observe_speculative(
    engine: Engine,
    evidence: Evidence,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    *,
    thinking: str,
    watcher: Watcher,
    keep: Keep,
) -> tuple[Evidence, tuple[TokenizedPrompt, ...]]:
    """Evidence of the speculative arm, and the requests as token ids.

    `keep` is given the evidence whenever it has grown, so that a crash loses only what was under way.
    """
    facts = engine.describe()
    evidence = msgspec.structs.replace(
        evidence, facts=facts, thinking=_thinking_tokens(engine.special_token_ids())
    )
    keep(evidence)

    def captured_pass(batch: Sequence[TokenizedPrompt]) -> Generation:
        return engine.generate(batch, sampling, capture=True, on_progress=watcher.progress)

    watcher.phase("generating", "speculative, drafts captured")
    requests, speculative, too_long = decode_workload(
        engine, prompts, thinking=thinking, max_model_len=facts.max_model_len, generate=captured_pass
    )
    evidence = msgspec.structs.replace(
        evidence,
        speculative=speculative,
        missing=evidence.missing + _missing_of(engine, speculative) + _left_out(too_long),
        token_texts=engine.token_texts(sorted(_token_ids(speculative))),
    )
    keep(evidence)
    watcher.phase("generating", "speculative, for timing")
    timing = engine.generate(requests, sampling, capture=False, on_progress=watcher.progress)
    evidence = msgspec.structs.replace(evidence, speculative_timing=timing)
    keep(evidence)
    return evidence, requests


def observe_target_only(
    engine: Engine,
    evidence: Evidence,
    requests: Sequence[TokenizedPrompt],
    sampling: Sampling,
    *,
    watcher: Watcher,
    keep: Keep,
) -> Evidence:
    """The evidence with the target-only arm: output, numeric noise, divergences with scores.

    Noise and divergences are taken for greedy decoding only: at temperature above 0 two texts differ by
    chance.
    """
    greedy = sampling.temperature == 0
    repeats: tuple[Generation, ...] = ()
    if greedy:
        watcher.phase("generating", "target-only, numeric noise")
        repeats = _noise_passes(engine, requests, sampling, watcher)
    watcher.phase("generating", "target-only")
    target_only = engine.generate(requests, sampling, capture=False, on_progress=watcher.progress)
    evidence = msgspec.structs.replace(evidence, target_only=target_only, target_only_repeats=repeats)
    keep(evidence)
    speculative = evidence.speculative
    if not greedy or speculative is None:
        return evidence
    reference, one_by_one = repeats
    capture = speculative.capture
    noise = measure_noise(
        reference,
        (one_by_one, target_only),
        dtype=evidence.facts.dtype if evidence.facts else None,
        max_logit=capture.max_logit if capture else None,
        how=f"target-only in one batch against {len(one_by_one.requests)} prompts one at a time, "
        f"up to {_NOISE_MAX_TOKENS} tokens",
    )
    watcher.phase("comparing", "speculative against target-only")
    divergences = find_divergences(speculative, target_only)
    evidence = msgspec.structs.replace(evidence, noise=noise, divergences=divergences)
    keep(evidence)
    if not divergences:
        return evidence
    try:
        scored = score_divergences(engine, divergences, target_only)
    except EngineError as error:
        lost = Missing(what="the target's scores where the outputs part", why=str(error))
        return msgspec.structs.replace(evidence, missing=(*evidence.missing, lost))
    unknown = _token_ids(target_only) - evidence.token_texts.keys()
    texts = evidence.token_texts | engine.token_texts(sorted(unknown))
    return msgspec.structs.replace(evidence, divergences=scored, token_texts=texts)


def _noise_passes(
    engine: Engine, requests: Sequence[TokenizedPrompt], sampling: Sampling, watcher: Watcher
) -> tuple[Generation, Generation]:
    """All prompts in one batch, then a few one at a time, both with log-probabilities; also the warm-up."""
    short = msgspec.structs.replace(sampling, max_tokens=min(_NOISE_MAX_TOKENS, sampling.max_tokens))
    together = engine.generate(requests, short, capture=False, logprobs=True, on_progress=watcher.progress)
    stride = max(1, len(requests) // _NOISE_NUM_PROMPTS)
    alone = engine.generate(
        requests[::stride][:_NOISE_NUM_PROMPTS],
        short,
        capture=False,
        logprobs=True,
        max_concurrency=1,
        on_progress=watcher.progress,
    )
    return together, alone


def _missing_of(engine: Engine, generation: Generation) -> tuple[Missing, ...]:
    """What the engine's level promised and the pass did not bring."""
    lost = []
    capture = generation.capture
    promised = engine.capabilities.level
    if capture is None or capture.level != promised:
        why = capture.reason if capture is not None and capture.reason else "the pass held no capture"
        lost.append(Missing(what=f"{promised}-level data of the verify steps", why=why))
    silent = sum(
        1
        for trace in generation.requests
        if len(trace.output_ids) > 1 and not trace.steps and not trace.counters
    )
    if silent:
        lost.append(
            Missing(
                what="acceptance of some requests",
                why=f"{silent} of {len(generation.requests)} requests came without steps or counters",
            )
        )
    return tuple(lost)


def _left_out(too_long: Sequence[str]) -> tuple[Missing, ...]:
    """A note about prompts that do not fit the engine; nobody promised their answers."""
    if not too_long:
        return ()
    names = ", ".join(too_long[:3]) + (", ..." if len(too_long) > 3 else "")
    why = f"{len(too_long)} prompts are longer than the engine's max_model_len ({names})"
    remedy = "give shorter prompts, or raise --engine-arg max_model_len=..."
    return (Missing(what="answers to some prompts", why=why, expected=False, remedy=remedy),)


def _thinking_tokens(special: dict[str, int]) -> ThinkingTokens | None:
    """The tokens that open and close a thinking block, by the spelling that models share."""
    start, end = special.get("<think>"), special.get("</think>")
    return None if start is None or end is None else ThinkingTokens(start_id=start, end_id=end)


def _token_ids(generation: Generation) -> set[int]:
    """Every id that a report may have to show: outputs, drafts, and the end of each prompt."""
    found: set[int] = set()
    for trace in generation.requests:
        found.update(trace.output_ids)
        found.update(trace.prompt_ids)
        for step in trace.steps or ():
            found.update(step.draft_ids or ())
            found.update(step.emitted_ids or ())
    return found
