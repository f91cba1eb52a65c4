"""Records verify steps inside Transformers' assisted decoding, by standing between it and its drafter."""

from __future__ import annotations

import time
from typing import Any

from dflash_doctor.evidence import VerifyStep


class StepRecorder:
    """Collects the steps of one request; stands in for the candidate generator.

    Transformers calls `get_candidates` before and `update_candidate_strategy` after each verification.
    """

    def __init__(self, *, greedy: bool, started_s: float) -> None:
        self._greedy = greedy
        self._started_s = started_s
        self._inner: Any = None
        self._drafts: list[int] = []
        self._place = 0
        self.steps: list[VerifyStep] = []
        self.max_logit: float | None = None

    def around(self, inner: Any) -> StepRecorder:
        """Take the place of a candidate generator."""
        self._inner = inner
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get_candidates(self, input_ids: Any, *args: Any, **kwargs: Any) -> Any:
        """Ask the drafter, and note what it drafted."""
        candidates = self._inner.get_candidates(input_ids, *args, **kwargs)
        self._place = input_ids.shape[1]
        self._drafts = candidates[0][0, self._place :].tolist()
        return candidates

    def update_candidate_strategy(self, input_ids: Any, scores: Any, num_matches: Any) -> Any:
        """Note what was kept. The first call of a request is its prefill and no step."""
        if self._drafts:
            self._note(input_ids, scores[0])
        return self._inner.update_candidate_strategy(input_ids, scores, num_matches)

    def _note(self, input_ids: Any, scores: Any) -> None:
        """Append the step; `scores` [drafted + 1, vocabulary] are the target's logits at each row."""
        now = time.monotonic() - self._started_s
        drafts = self._drafts
        if self._greedy:
            # Transformers cuts what it keeps at the end token; the verification itself did not.
            own = scores.argmax(-1).tolist()
            accepted = next((i for i, token in enumerate(drafts) if token != own[i]), len(drafts))
            emitted = [*drafts[:accepted], own[accepted]]
        else:
            emitted = input_ids[0, self._place :].tolist()
            accepted = len(emitted) - 1
            if accepted < len(drafts) and emitted[-1] == drafts[accepted]:
                # The text ended at an accepted draft: what stood behind it was not judged.
                drafts = drafts[:accepted]
        row = scores[accepted].float()
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


class CountingStreamer:
    """Counts accepted tokens from what Transformers streams: prompt, prefill token, then one put a step."""

    def __init__(self) -> None:
        self._sizes: list[int] = []

    def put(self, value: Any) -> None:
        """Called with the tokens of the prompt, of prefill, and of each verification."""
        self._sizes.append(int(value.numel()))

    def end(self) -> None:
        """Called when the text is complete."""

    def steps(self, num_speculative_tokens: int) -> tuple[VerifyStep, ...]:
        """Steps without ids; what the engine cut at the end of the text counts as not accepted."""
        return tuple(
            VerifyStep(num_drafted=num_speculative_tokens, num_accepted=size - 1) for size in self._sizes[2:]
        )
