"""What an engine is: it runs the pair, and says how deep it lets us look.

An engine instance serves one arm (speculation is decided when an engine starts). The session opens one
instance per arm, uses it as a context manager, and never has to know where it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from dflash_doctor.evidence import Arm, EngineFacts, Generation, Level


class Shim(msgspec.Struct, frozen=True, kw_only=True):
    """A defect put on the live engine once it has started, to test the doctor."""

    install: str
    """`module:function`, called in the worker with the model runner and the parameters."""
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to start an engine. Plain data: it crosses a process boundary."""

    target: str
    draft: str | None = None
    method: str = "dflash"
    num_speculative_tokens: int | None = None
    """K; `None` lets the engine module take block_size - 1 from the draft config."""
    arm: Arm = "speculative"
    engine_args: dict[str, Any] = msgspec.field(default_factory=dict)
    """Passed to the engine unchanged, after our defaults; `speculative_config.X` reaches the nested one."""
    seed: int = 0
    log_path: str | None = None
    """File the engine's own output goes to."""
    start_timeout_s: float = 900.0
    stall_timeout_s: float = 300.0
    """Longest silence (no token, no step) before the engine counts as hung."""
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    """Variables set before the engine is imported, over those that are there."""
    shims: tuple[Shim, ...] = ()
    """Applied in order after the start; only the doctor's own test asks for any."""
    replay: str | None = None
    """Run folder or record to read instead of running anything (engine `replay`)."""


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a pass, the same for every request."""

    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    ignore_eos: bool = False


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """Messages (`role`, `content`) to be rendered with the target's chat template, or raw text."""

    messages: tuple[dict[str, Any], ...] | None = None
    prompt: str | None = None


class TokenizedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt ready for the engine."""

    prompt_id: str
    category: str
    token_ids: tuple[int, ...]


class Continuation(msgspec.Struct, frozen=True, kw_only=True):
    """A prefix and the tokens whose probability right after it is wanted."""

    prefix_ids: tuple[int, ...]
    token_ids: tuple[int, ...]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What this engine can do, known before it starts."""

    level: Level
    arms: tuple[Arm, ...]
    can_score: bool
    """Teacher-forced log-probabilities."""
    can_sample: bool
    """Temperature above 0."""
    can_render: bool
    """Chat template and tokenizer at hand."""


ProgressCallback = Callable[[int, int], None]
"""Called with (requests done, requests in all)."""


class Engine(Protocol):
    """A running engine.

    All methods raise `EngineError` (never an engine's own exception) and leave the engine closed when
    it is beyond use. `close` can be called twice.
    """

    name: str

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked."""

    def describe(self) -> EngineFacts:
        """What the live engine really uses."""

    def render(self, conversations: Sequence[Conversation], *, thinking: str) -> tuple[tuple[int, ...], ...]:
        """Token ids of each conversation with the generation prompt; `thinking` is off, on or template."""

    def token_texts(self, token_ids: Sequence[int]) -> dict[int, str]:
        """Text of each single token, as the tokenizer writes it."""

    def special_token_ids(self) -> dict[str, int]:
        """Ids of added tokens by their text (`<think>`, `</think>`, end of text, ...)."""

    def chat_template(self) -> str | None:
        """The template used by `render`, for hashing."""

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
        """Decode every prompt once.

        Args:
            prompts: in the order of the answer.
            sampling: the same for all.
            capture: record draft tokens; such a pass is not for timing.
            logprobs: also return the target's log-probability of each output token and of its runner-up.
            max_concurrency: most requests in flight; `None` leaves it to the engine.
            fresh: forget earlier prompts first, so that passes do not help each other through a cache.
            on_progress: told as requests finish.
        """

    def score(self, continuations: Sequence[Continuation]) -> tuple[tuple[float, ...], ...]:
        """Natural log-probability, under the target, of each token right after its prefix."""

    def close(self) -> None:
        """Stop everything the engine started."""

    def __enter__(self) -> Engine: ...

    def __exit__(self, *exc: object) -> None: ...
