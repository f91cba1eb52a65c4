"""The calls that the reference answers in its child process."""

from __future__ import annotations

import msgspec

from dflash_doctor.hosting.messages import Close
from dflash_doctor.reference.knobs import Knobs


class ReferenceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to load, and how."""

    target: str
    draft: str
    reader: str
    """Whose reading of the draft config to follow."""
    num_draft_tokens: int | None = None
    """K; `None`: what a full block drafts."""
    dtype: str | None = None
    """Of target and drafter; `None`: float32 on a CPU, the checkpoint's own elsewhere."""
    device: str | None = None
    """`None`: an accelerator where there is one and the pair fits, else the CPU."""
    trust_remote_code: bool = False
    cache_bytes: int = 2 << 30
    """Hidden states held in memory; what is more goes to a temporary folder."""
    num_threads: int | None = None


class EngineStep(msgspec.Struct, frozen=True):
    """A verify step of the engine: where it stood, and what it drafted."""

    anchor: int
    """Position of the last committed token."""
    draft_ids: tuple[int, ...]


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt with the target's answer."""

    token_ids: tuple[int, ...]
    num_prompt_tokens: int
    engine_steps: tuple[EngineStep, ...] = ()


class ReferenceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was loaded."""

    device: str
    dtype: str
    num_draft_tokens: int
    block_size: int
    taps: tuple[int, ...]
    num_target_layers: int
    num_layers: int
    vocab_rows: int
    """Rows of the target's embedding."""
    tensor_names: tuple[str, ...]
    """Of the drafter."""
    hidden_size: int
    missing_tensors: tuple[str, ...]
    ignored_tensors: tuple[str, ...]
    zero_tensors: tuple[str, ...]
    """Tensors of the file in which every number is zero."""
    has_own_head: bool
    has_own_embedding: bool


class TextRead(msgspec.Struct, frozen=True, kw_only=True):
    """The target along one text."""

    target_equal: int
    num_answer_tokens: int
    num_non_finite: int
    """Hidden states that are not a number or infinite."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The drafter along one text, under some knobs."""

    accepted: tuple[int, ...]
    """At every anchor of the answer."""
    steps: tuple[int, ...]
    engine_equal: int
    engine_compared: int
    engine_offsets: dict[int, int] = {}
    """Engine's id - own id -> how often, where they differ; the commonest few."""
    equal_after_rejection: tuple[int, int] = (0, 0)
    """Equal and compared at steps whose step before had a draft refused."""


class Start(msgspec.Struct, tag="start", frozen=True):
    """Load target and drafter; answered with `ReferenceFacts`."""

    options: ReferenceOptions


class ReadTexts(msgspec.Struct, tag="read_texts", frozen=True):
    """Run the target along texts and keep the outputs of these layers; answered with a `TextRead` each."""

    texts: tuple[Text, ...]
    layer_ids: tuple[int, ...]


class MeasureKnobs(msgspec.Struct, tag="measure", frozen=True):
    """Draft along some of the texts; answered with a `Measured` each.

    `engine_only` drafts at the engine's own anchors and leaves the rest of the answer out.
    """

    knobs: Knobs
    text_numbers: tuple[int, ...]
    engine_only: bool = False


class ProfileDrafts(msgspec.Struct, tag="profile", frozen=True):
    """The unchanged drafter's drafts in detail; answered with a `DraftProfile`."""

    text_numbers: tuple[int, ...]


Call = Start | ReadTexts | MeasureKnobs | ProfileDrafts | Close
