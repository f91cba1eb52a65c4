"""What was observed: frozen plain data, no tensors, no engine objects.

Engines and probes produce evidence, checks judge it. Everything here can be written to JSON and read
back (the `replay` engine does), so a verdict can be reproduced without the machine that produced it.

Words: a *verify step* is one target forward pass that verified a draft. It emits the accepted draft
tokens and one more token of the target's own: the *recovered* token where a draft was rejected, the
*bonus* token where all were accepted. The token that prefill emits belongs to no step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from dflash_doctor.contract.evidence import ContractEvidence
from dflash_doctor.trials import ExperimentEvidence

Arm = Literal["speculative", "target-only"]
"""Which way a pass was decoded."""

Level = Literal["token", "step", "request", "server"]
"""How deep an engine lets us look.

`token`: draft ids per step; `step`: accepted and drafted per step; `request`: totals per request;
`server`: counters over all traffic.
"""

LEVELS: tuple[Level, ...] = ("server", "request", "step", "token")
"""Support levels, shallowest first."""


class VerifyStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One verify step of one request.

    `draft_ids` and `emitted_ids` are `None` below level *token*. Log-probabilities are natural logs of
    the target's own distribution (before temperature and filters) at the row that decided; ranks count
    from 1 and a rank is 1 + the number of tokens with a strictly larger logit.
    """

    num_drafted: int
    num_accepted: int
    position: int | None = None
    """Index, in prompt + output, of the first token this step emitted."""
    draft_ids: tuple[int, ...] | None = None
    emitted_ids: tuple[int, ...] | None = None
    """Accepted draft tokens, then the recovered or bonus token; before any trimming at a stop."""
    rejected_logprob: float | None = None
    rejected_rank: int | None = None
    chosen_logprob: float | None = None
    """Of the recovered token (of nothing when all drafts were accepted)."""
    chosen_rank: int | None = None
    time_s: float | None = None
    """Monotonic seconds since the pass began, when the step's verification returned."""

    @property
    def rejected_id(self) -> int | None:
        """The first draft token the target refused; `None` when all were accepted or ids are unknown."""
        if self.draft_ids is None or self.num_accepted >= len(self.draft_ids):
            return None
        return self.draft_ids[self.num_accepted]

    @property
    def chosen_id(self) -> int | None:
        """The recovered or bonus token: what the target itself put after the accepted ones."""
        return self.emitted_ids[-1] if self.emitted_ids else None


class EngineCounters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the engine itself reported, names as in METRICS (vLLM's where they agree); absent is `None`."""

    num_drafts: int | None = None
    num_draft_tokens: int | None = None
    num_accepted_draft_tokens: int | None = None
    num_spec_tokens: int | None = None
    mean_acceptance_length: float | None = None
    draft_acceptance_rate: float | None = None
    acceptance_histogram: tuple[int, ...] | None = None
    per_step_accepted: tuple[int, ...] | None = None
    per_step_drafted: tuple[int, ...] | None = None
    accepted_per_position: tuple[int, ...] | None = None
    """Steps that accepted position i (server counters only)."""
    source: Literal["engine", "scrape"] = "engine"


class RequestTiming(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seconds, as the engine measured them for this request."""

    ttft_s: float | None = None
    """Arrival to first token."""
    e2e_latency_s: float | None = None
    """Arrival to last token."""
    decode_s: float | None = None
    """First token to last token."""
    queue_s: float | None = None


class RequestTrace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One prompt decoded once."""

    prompt_id: str
    category: str
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    """What the client got: trimmed at stop and at max_tokens."""
    text: str = ""
    finish_reason: str | None = None
    steps: tuple[VerifyStep, ...] | None = None
    """`None`: the engine gave no per-step data (or the pass was not speculative)."""
    counters: EngineCounters | None = None
    timing: RequestTiming | None = None
    output_logprobs: tuple[float, ...] | None = None
    """Target's log-probability of each output token, where it was asked for."""
    runner_up_logprobs: tuple[float, ...] | None = None
    """Highest log-probability among the tokens not chosen, at each output position, where asked for."""
    num_cached_prompt_tokens: int | None = None


class CaptureReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the capture of draft tokens went."""

    level: Level
    reason: str = ""
    """Why the level is not *token*; empty when it is."""
    num_steps: int = 0
    num_errors: int = 0
    last_error: str | None = None
    max_logit: float | None = None
    """Largest absolute target logit seen at a decided row: the scale of one rounding step."""


class Generation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pass over the workload, one arm."""

    arm: Arm
    requests: tuple[RequestTrace, ...]
    captured: bool = False
    """True where draft tokens were recorded: such a pass is never used for timing."""
    capture: CaptureReport | None = None
    duration_s: float | None = None
    """Wall seconds for the whole pass, start-up excluded."""
    max_concurrency: int | None = None
    server_counters: EngineCounters | None = None

    @property
    def level(self) -> Level:
        """The deepest level that every request with drafts reached."""
        return self.capture.level if self.capture is not None else "request"


class EngineFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the live engine really uses, read from the loaded models and not from the command line.

    `None` means the engine could not say. `live` holds everything else as plain JSON values.
    """

    name: str
    version: str | None = None
    device: str | None = None
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    runner: str | None = None
    runner_generation: Literal["v1", "v2"] | None = None
    async_scheduling: bool | None = None
    enforce_eager: bool | None = None
    prefix_caching: bool | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    target_attention: tuple[str, ...] = ()
    """Distinct attention implementations of the target's layers."""
    draft_attention: tuple[str, ...] = ()
    method: str | None = None
    num_spec_tokens: int | None = None
    block_size: int | None = None
    """From the draft config: counts the anchor slot, so a block proposes block_size - 1 tokens."""
    mask_token_id: int | None = None
    target_layer_ids: tuple[int, ...] | None = None
    """As in the draft config (z-lab numbering: id i is the output of layer i)."""
    aux_hidden_state_layers: tuple[int, ...] | None = None
    """As the live target captures them (the engine's own numbering)."""
    num_target_layers: int | None = None
    draft_class: str | None = None
    lm_head_shared: bool | None = None
    embedding_shared: bool | None = None
    draft_layers_causal: tuple[bool, ...] | None = None
    rejection_sample_method: str | None = None
    draft_sample_method: str | None = None
    lossy_settings: tuple[str, ...] = ()
    """Settings in force that make acceptance lossy or simulated, as `name=value`."""
    live: dict[str, Any] = msgspec.field(default_factory=dict)


class NumericNoise(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much the target's own log-probabilities move on this machine when nothing but batching changes."""

    num_positions: int
    """Output positions compared (same prompt, same prefix)."""
    max_logprob_gap_change: float
    """Largest change of the chosen-minus-runner-up gap between two target-only passes, in nats."""
    num_text_differences: int
    """Requests whose target-only text differed between the passes."""
    num_requests: int
    rounding_step: float | None = None
    """One unit in the last place of the model dtype at the largest logit seen."""
    how: str = ""

    @property
    def tie_margin(self) -> float:
        """Gaps at or below this many nats are numerical ties on this machine."""
        return max(self.max_logprob_gap_change, self.rounding_step or 0.0)


class Divergence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first place where speculative and target-only output part, and what the target thinks of both.

    Log-probabilities are teacher-forced: the target reads prompt + common output prefix, then scores
    each continuation. `None` where the engine cannot score.
    """

    prompt_id: str
    category: str
    index: int
    """Output index of the first differing token."""
    target_id: int | None
    """Target-only token there; `None` when the target-only text had ended."""
    speculative_id: int | None
    target_logprob: float | None = None
    speculative_logprob: float | None = None
    source: Literal["accepted", "recovered", "bonus", "prefill", "unknown"] = "unknown"
    """Where the speculative token came from."""

    @property
    def gap(self) -> float | None:
        """Target's log-probability of its own token minus that of the speculative one, in nats."""
        if self.target_logprob is None or self.speculative_logprob is None:
            return None
        return self.target_logprob - self.speculative_logprob


class Missing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A datum that was expected and did not come."""

    what: str
    why: str
    expected: bool = True
    """False when nobody promised it (an older engine, a lower level): then it is a note, not a finding."""
    remedy: str = "read the engine log; upgrade or pin the engine version"


class ThinkingTokens(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Token ids that open and close the thinking block, where the tokenizer has them."""

    start_id: int
    end_id: int


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything one run observed."""

    contract: ContractEvidence | None = None
    """What files, packages and settings said; `None`: not looked at."""
    facts: EngineFacts | None = None
    speculative: Generation | None = None
    speculative_timing: Generation | None = None
    """An uncaptured pass over the same prompts."""
    target_only: Generation | None = None
    target_only_repeats: tuple[Generation, ...] = ()
    noise: NumericNoise | None = None
    divergences: tuple[Divergence, ...] | None = None
    """`None`: not compared. Empty: compared, and all equal."""
    experiments: ExperimentEvidence | None = None
    """What was tried to find causes; `None`: nothing."""
    thinking: ThinkingTokens | None = None
    token_texts: dict[int, str] = msgspec.field(default_factory=dict)
    missing: tuple[Missing, ...] = ()

    @property
    def level(self) -> Level | None:
        """Support level of the captured pass."""
        return self.speculative.level if self.speculative is not None else None


def requests_of(generation: Generation | None) -> Sequence[RequestTrace]:
    """The requests of a pass, empty when there was none."""
    return () if generation is None else generation.requests
