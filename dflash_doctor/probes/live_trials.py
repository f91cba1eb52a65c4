"""The running engine asked in another way: one at a time, from a warm cache, with the other thinking mode.

No restart and no drafter knowledge is needed, so these come first. Few prompts and short answers: a defect
that depends on the batch or on the cache is large.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from dflash_doctor.engines.base import Engine, Sampling, TokenizedPrompt
from dflash_doctor.errors import DoctorError
from dflash_doctor.evidence import Generation, RequestTrace
from dflash_doctor.plan import Plan
from dflash_doctor.probes.arms import Watcher
from dflash_doctor.trials import Trial, TrialCounts, TrialKind
from dflash_doctor.workloads.turns import conversation_for_turn, request_id

MAX_TOKENS = 48
NUM_PROMPTS = 24
_NUM_ALONE = 8
"""One at a time takes its time."""


def observe_live_trials(
    engine: Engine, plan: Plan, requests: Sequence[TokenizedPrompt], *, watcher: Watcher
) -> tuple[tuple[Trial, ...], Generation | None, tuple[str, ...]]:
    """Trials on the speculative engine while it runs.

    Returns:
        The trials; the unchanged pass that they, and runs with other settings, are compared with; and what
        could not be tried, with the reason.
    """
    if plan.settings.experiments == "off" or plan.settings.temperature != 0:
        return (), None, ()
    chosen = requests[:: max(1, len(requests) // NUM_PROMPTS)][:NUM_PROMPTS]
    sampling = short(plan.sampling())
    watcher.phase("experimenting", "the engine asked in another way")
    try:
        together = engine.generate(chosen, sampling, capture=True, on_progress=watcher.progress)
    except DoctorError as error:
        return (), None, (f"the engine failed in a second pass: {error.what}",)
    trials: list[Trial] = []
    not_tried: list[str] = []
    for carry_out in (_warm, _alone, _other_thinking):
        try:
            trial = carry_out(engine, plan, chosen, sampling, together, watcher)
        except DoctorError as error:
            not_tried.append(f"the engine failed when asked in another way: {error.what}")
            break
        if isinstance(trial, Trial):
            trials.append(trial)
        elif trial is not None:
            not_tried.append(trial)
    return tuple(trials), together, tuple(not_tried)


def short(sampling: Sampling) -> Sampling:
    """The same with short answers."""
    return msgspec.structs.replace(sampling, max_tokens=min(MAX_TOKENS, sampling.max_tokens))


def acceptance_counts(before: Generation, after: Generation) -> TrialCounts | None:
    """Tokens and steps of each prompt in both passes; `None` where steps are not known.

    Counted per prompt over the steps, so that a last step cut short by the end does not weigh in.
    """
    left, right = (
        {item.prompt_id: _tokens_and_steps(item) for item in run.requests} for run in (before, after)
    )
    names = [name for name in left if left[name][1] and right.get(name, (0, 0))[1]]
    if not names:
        return None
    return TrialCounts(
        prompt_ids=tuple(names),
        before=tuple(left[name][0] for name in names),
        after=tuple(right[name][0] for name in names),
        size_before=tuple(left[name][1] for name in names),
        size_after=tuple(right[name][1] for name in names),
    )


def _tokens_and_steps(trace: RequestTrace) -> tuple[int, int]:
    if trace.steps:
        return sum(step.num_accepted + 1 for step in trace.steps), len(trace.steps)
    counters = trace.counters
    if counters is None or not counters.num_drafts or counters.num_accepted_draft_tokens is None:
        return 0, 0
    return counters.num_accepted_draft_tokens + counters.num_drafts, counters.num_drafts


def engine_trial(
    *,
    name: str,
    cause: str,
    change: str,
    before: Generation,
    after: Generation,
    started: float,
    remedy: str,
    kind: TrialKind = "engine-run",
) -> Trial:
    """A trial settled in advance: nothing was picked, so all its prompts judge."""
    counts = acceptance_counts(before, after)
    return Trial(
        name=name,
        kind=kind,
        cause=cause,
        change=change,
        measure="acceptance",
        confirmation=counts,
        remedy=remedy,
        duration_s=round(time.monotonic() - started, 3),
        failed=None if counts is not None else "the engine gave no verify steps",
    )


def _warm(
    engine: Engine,
    plan: Plan,
    requests: Sequence[TokenizedPrompt],
    sampling: Sampling,
    together: Generation,
    watcher: Watcher,
) -> Trial | str | None:
    """The same prompts again, now cached: what the cache brings back, the drafter must have too."""
    started = time.monotonic()
    watcher.trying("the same prompts from the prefix cache")
    warm = engine.generate(requests, sampling, capture=True, fresh=False, on_progress=watcher.progress)
    if not any(trace.num_cached_prompt_tokens for trace in warm.requests):
        return (
            "prompts from the prefix cache: it gave nothing back (off, or prompts shorter than a block of it)"
        )
    return engine_trial(
        name="cold prefix cache",
        cause="draft-context-holes",
        change="prompts from the prefix cache -> prompts not in the cache",
        before=warm,
        after=together,
        started=started,
        remedy="--no-enable-prefix-caching until the engine fills the drafter's context on a cache hit",
    )


def _alone(
    engine: Engine,
    plan: Plan,
    requests: Sequence[TokenizedPrompt],
    sampling: Sampling,
    together: Generation,
    watcher: Watcher,
) -> Trial | None:
    """The same prompts one at a time."""
    started = time.monotonic()
    watcher.trying("one request at a time")
    few = requests[:: max(1, len(requests) // _NUM_ALONE)][:_NUM_ALONE]
    alone = engine.generate(few, sampling, capture=True, max_concurrency=1, on_progress=watcher.progress)
    return engine_trial(
        name="one request at a time",
        cause="batch-dependent-acceptance",
        change=f"{len(requests)} requests together -> one at a time",
        before=together,
        after=alone,
        started=started,
        remedy="run eager or with piecewise graphs, or with fewer sequences, until the engine is fixed",
    )


def _other_thinking(
    engine: Engine,
    plan: Plan,
    requests: Sequence[TokenizedPrompt],
    sampling: Sampling,
    together: Generation,
    watcher: Watcher,
) -> Trial | None:
    """The first turns again with thinking switched; nothing where the template has no switch."""
    started = time.monotonic()
    own = plan.settings.thinking
    other = "on" if own == "off" else "off"
    wanted = {request.prompt_id for request in requests}
    prompts = [prompt for prompt in plan.prompts if request_id(prompt, 0) in wanted]
    if not engine.capabilities.can_render or not prompts:
        return None
    conversations = [conversation_for_turn(prompt, 0, []) for prompt in prompts]
    rendered = engine.render(conversations, thinking=other)
    by_id = {request.prompt_id: request for request in requests}
    switched = [
        TokenizedPrompt(prompt_id=request_id(prompt, 0), category=prompt.category, token_ids=tuple(ids))
        for prompt, ids in zip(prompts, rendered, strict=True)
    ]
    if all(item.token_ids == by_id[item.prompt_id].token_ids for item in switched):
        return None
    watcher.trying(f"thinking {other}")
    after = engine.generate(switched, sampling, capture=True, on_progress=watcher.progress)
    return engine_trial(
        name=f"thinking {other}",
        cause="thinking-mode-mismatch",
        change=f"thinking {own} -> {other}",
        before=together,
        after=after,
        started=started,
        remedy=f"serve with thinking {other}, or use a drafter that was trained with thinking {own}",
        kind="traffic",
    )
