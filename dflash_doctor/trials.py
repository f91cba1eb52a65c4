"""What experiments observed: frozen plain data, per text, so that every interval can be computed again.

A *text* is a prompt with the target's own greedy answer. A *trial* changes one thing and is compared with
the unchanged run on the same texts.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

TrialKind = Literal["intervention", "reproduction", "engine-run", "traffic"]
"""`intervention`: the reference drafter with one knob turned; better means the knob was wrong.
`reproduction`: the reference drafter with a defect put in; nearer to the engine means the engine has it.
`engine-run`: the engine again with one setting changed. `traffic`: the engine asked in another way."""

Measure = Literal["verify-steps", "equal-drafts", "acceptance"]
"""`verify-steps`: steps that the same text takes, fewer is better. `equal-drafts`: draft tokens equal to the
engine's, of those compared. `acceptance`: tokens per step, where the texts are not the same."""


class TrialCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Paired counts, one entry a text."""

    prompt_ids: tuple[str, ...]
    before: tuple[int, ...]
    """verify-steps: steps. equal-drafts: equal draft tokens. acceptance: tokens kept."""
    after: tuple[int, ...]
    size_before: tuple[int, ...] = ()
    """equal-drafts: tokens compared; acceptance: steps. Empty for verify-steps."""
    size_after: tuple[int, ...] = ()


class Trial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing changed, and the paired counts before and after."""

    name: str
    kind: TrialKind
    cause: str
    """Of the cause catalog: what is named when the trial explains the loss."""
    change: str
    """In words, with values: `rope_theta 1e+06 -> 10000`."""
    measure: Measure
    screening: TrialCounts | None = None
    """On the texts on which the trial was picked from many."""
    confirmation: TrialCounts | None = None
    """On other texts; `None` where screening showed no promise. Only this can name a cause."""
    remedy: str = ""
    knobs: dict[str, Any] = msgspec.field(default_factory=dict)
    duration_s: float = 0.0
    failed: str | None = None
    """Why it could not be carried out."""


class ReferenceText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One text under the unchanged reference."""

    prompt_id: str
    category: str
    num_prompt_tokens: int
    accepted: tuple[int, ...]
    """Draft tokens kept at every anchor of the answer, from the first answer token on."""
    steps: tuple[int, ...]
    """Draft tokens kept at the anchors that an engine would visit."""
    steps_shuffled: int | None = None
    """Steps with the rows of the context in random order; `None` where it was not tried."""
    target_equal: int
    """Answer tokens that are the reference target's own first choice."""
    num_answer_tokens: int
    engine_steps: int | None = None
    """Verify steps that the engine took for this text; `None` where its steps are not known."""
    engine_equal: int | None = None
    """Engine's draft tokens equal to the reference's at the same anchor."""
    engine_compared: int | None = None
    engine_offsets: dict[int, int] = msgspec.field(default_factory=dict)
    """Engine's draft id - reference's -> how often, where they differ; the commonest few."""
    equal_after_rejection: tuple[int, int] = (0, 0)
    """Equal and compared draft tokens at steps behind one that refused a draft."""


class DraftProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The unchanged reference's drafts at all anchors, by draft position; teacher-forced."""

    num_anchors: tuple[int, ...]
    """[K] anchors whose text reaches this position."""
    num_equal: tuple[int, ...]
    """[K] drafts equal to the text's token."""
    mean_rank: tuple[float, ...]
    """[K] rank of the text's token in the draft logits, from 1."""
    mean_logprob: tuple[float, ...]
    """[K] draft's natural log-probability of the text's token."""
    mean_entropy: tuple[float, ...]
    """[K] of the draft distribution, nats."""
    in_top_5: tuple[int, ...]
    """[K] anchors at which the text's token is among the drafter's five likeliest."""
    num_equal_one_early: tuple[int, ...]
    """[K] drafts equal to the token one place before."""
    num_equal_one_late: tuple[int, ...]
    num_repeated: int
    """Neighbouring draft tokens that are equal."""
    num_non_finite: int
    """Draft logits that are not a number or infinite."""


class ReferenceEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reference drafter along the target's texts."""

    reader: str
    """Whose reading of the draft config it follows."""
    device: str
    dtype: str
    num_draft_tokens: int
    texts: tuple[ReferenceText, ...]
    profile: DraftProfile | None = None
    missing_tensors: tuple[str, ...] = ()
    ignored_tensors: tuple[str, ...] = ()
    zero_tensors: tuple[str, ...] = ()
    num_non_finite_states: int = 0
    """Numbers among the target's layer outputs that are not a number or infinite."""
    duration_s: float = 0.0


class ExperimentEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that was tried."""

    reference: ReferenceEvidence | None = None
    trials: tuple[Trial, ...] = ()
    not_tried: tuple[str, ...] = ()
    """What could not be tried, and why; one sentence each."""
    budget_s: float | None = None
    spent_s: float = 0.0
    stopped: str | None = None
    """Why the search ended early; `None` where everything planned was tried."""
