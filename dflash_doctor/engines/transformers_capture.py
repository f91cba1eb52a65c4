"""Records verify steps inside Transformers' assisted decoding, by listening to it and its drafter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dflash_doctor.evidence import VerifyStep

_MAKER = "_get_candidate_generator"
"""The method of a Transformers model that makes the drafter's side of assisted decoding."""


class StepRecorder:
    """Collects the steps of one request.

    Transformers asks its candidate generator for drafts (`get_candidates`), lets the target verify them
    in one forward pass, and tells the generator what was kept (`update_candidate_strategy`). The logits
    are taken from the forward pass itself: what `update_candidate_strategy` is given has been through
    temperature and filters.

    An error in here never reaches the generation: the recording stops and `error` says why.
    """

    def __init__(self, *, started_s: float) -> None:
        self._started_s = started_s
        self._drafts: list[int] = []
        self._place = 0
        self._logits: Any = None
        self.attached = False
        """Whether Transformers handed out its candidate generator."""
        self.steps: list[VerifyStep] = []
        self.max_logit: float | None = None
        self.error: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every step of the request was recorded."""
        return self.attached and self.error is None

    def attach(self, generator: Any) -> None:
        """Listen to a candidate generator."""
        ask, update = generator.get_candidates, generator.update_candidate_strategy

        def get_candidates(input_ids: Any, *args: Any, **kwargs: Any) -> Any:
            candidates = ask(input_ids, *args, **kwargs)
            self._guarded(self._note_drafts, input_ids, candidates)
            return candidates

        def update_candidate_strategy(input_ids: Any, scores: Any, num_matches: Any) -> Any:
            self._guarded(self._note_step, input_ids)
            return update(input_ids, scores, num_matches)

        generator.get_candidates = get_candidates
        generator.update_candidate_strategy = update_candidate_strategy
        self.attached = True

    def see_forward(self, module: Any, args: Any, output: Any) -> None:
        """A forward hook of the target: keeps the rows that verify the drafts, before anyone changes them."""
        self._guarded(self._keep_logits, output)

    def _guarded(self, note: Callable[..., None], *args: Any) -> None:
        if self.error is None:
            try:
                note(*args)
            except Exception as error:
                self.error = f"{type(error).__name__}: {error}"

    def _note_drafts(self, input_ids: Any, candidates: Any) -> None:
        self._place = input_ids.shape[1]
        self._drafts = candidates[0][0, self._place :].tolist()

    def _keep_logits(self, output: Any) -> None:
        if self._drafts:
            # A copy: Transformers writes filtered values into the same memory.
            self._logits = output.logits[0, -len(self._drafts) - 1 :].float().clone()

    def _note_step(self, input_ids: Any) -> None:
        """Append the step; without drafts (prefill) it was none."""
        if not self._drafts:
            return
        now = time.monotonic() - self._started_s
        drafts, emitted = self._drafts, input_ids[0, self._place :].tolist()
        accepted = len(emitted) - 1
        row = self._logits[accepted]
        logprobs = row.log_softmax(-1)
        chosen = emitted[-1]
        rejected = drafts[accepted] if accepted < len(drafts) else None
        top = float(row.abs().max())
        self.max_logit = top if self.max_logit is None else max(self.max_logit, top)
        self.steps.append(
            VerifyStep(
                num_drafted=len(drafts),
                num_accepted=accepted,
                position=self._place,
                draft_ids=tuple(drafts),
                emitted_ids=tuple(emitted),
                rejected_logprob=None if rejected is None else round(float(logprobs[rejected]), 5),
                rejected_rank=None if rejected is None else 1 + int((row > row[rejected]).sum()),
                chosen_logprob=round(float(logprobs[chosen]), 5),
                chosen_rank=1 + int((row > row[chosen]).sum()),
                time_s=round(now, 6),
            )
        )


@contextmanager
def listening(target: Any, recorder: StepRecorder | None) -> Iterator[None]:
    """Let `recorder` hear what `target` does while it generates; nothing where there is no recorder.

    A Transformers without the method that hands out candidate generators leaves it unattached.
    """
    make = getattr(target, _MAKER, None)
    if recorder is None or make is None:
        yield
        return

    def make_and_attach(*args: Any, **kwargs: Any) -> Any:
        generator = make(*args, **kwargs)
        recorder._guarded(recorder.attach, generator)
        return generator

    setattr(target, _MAKER, make_and_attach)
    hook = target.register_forward_hook(recorder.see_forward)
    try:
        yield
    finally:
        hook.remove()
        delattr(target, _MAKER)


class StreamWatch:
    """What one request streams: when, and how many tokens at a time.

    Transformers puts the prompt, then the token of prefill, then what each step emitted.
    """

    def __init__(self, *, started_s: float, on_put: Callable[[], None]) -> None:
        self._started_s = started_s
        self._on_put = on_put
        self._puts: list[tuple[float, int]] = []

    def put(self, value: Any) -> None:
        """Called by Transformers with new tokens."""
        self._puts.append((time.monotonic(), int(value.numel())))
        self._on_put()

    def end(self) -> None:
        """Called by Transformers when the text is complete."""

    @property
    def first_token_s(self) -> float | None:
        """Monotonic seconds when the first token came."""
        return self._puts[1][0] if len(self._puts) > 1 else None

    def steps(self, num_speculative_tokens: int) -> tuple[VerifyStep, ...]:
        """Steps without ids."""
        return tuple(
            VerifyStep(
                num_drafted=num_speculative_tokens,
                num_accepted=size - 1,
                time_s=round(when - self._started_s, 6),
            )
            for when, size in self._puts[2:]
        )
