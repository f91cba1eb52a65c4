"""The run record: one versioned document with everything a run learnt.

Reports, comparisons and the viewer read only this (and the trace file it names). The JSON Schema in
the wheel is generated from these types. Rates are 0..1, durations are seconds, absent values are
`null` and never 0.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dflash_doctor.contract.evidence import ContractEvidence
from dflash_doctor.evidence import EngineFacts, Level
from dflash_doctor.trials import DraftProfile

SCHEMA_VERSION = 1
"""Raised when a reader of the previous version would misread the document."""

Source = Literal["engine", "derived", "scrape", "absent"]
"""Where a number came from: the engine said so, computed from per-step data, server counters, nowhere."""

Verdict = Literal["passed", "failed", "skipped", "inconclusive", "errored"]
"""What a check, and a run, can say. A run is never `skipped`: with nothing judged it is `inconclusive`."""

Severity = Literal["error", "warning", "info"]
"""`error` fails the run; `warning` is worth acting on and does not; `info` explains."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its 95 % interval.

    `low` and `high` are `None` where no interval can be given (fewer than two requests).
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    num_requests: int = 0
    """Independent units behind the interval: requests, never steps."""
    source: Source = "derived"


class AcceptanceMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Acceptance over one slice of the traffic. Names and formulas: METRICS in the README."""

    label: str
    num_requests: int
    num_drafts: int | None
    num_draft_tokens: int | None
    num_accepted_draft_tokens: int | None
    rejected_draft_tokens: int | None
    num_output_tokens: int
    num_overshoot_tokens: int | None
    """Tokens that steps emitted past the end of the text; counters include them, texts do not."""
    mean_acceptance_length: Estimate
    """1 + accepted / steps, pooled, bonus included."""
    mean_acceptance_length_per_request: Estimate
    """Mean over requests of each request's own value."""
    mean_tokens_per_step: Estimate
    """Tokens kept after prefill / steps: `mean_acceptance_length` without the overshoot."""
    draft_acceptance_rate: Estimate
    accepted_per_verified: Estimate
    """(accepted + steps) / (drafted + steps): the useful share of the verified positions."""
    first_position_acceptance_rate: Estimate
    acceptance_histogram: tuple[int, ...] | None
    """Index j: steps that accepted exactly j."""


class PositionMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Acceptance at one draft position (0 is the first drafted token)."""

    position: int
    num_drafted: int
    """Steps that drafted this position."""
    num_accepted: int
    acceptance_rate: Estimate
    """Steps that accepted this position / all steps."""
    conditional_acceptance_rate: Estimate
    """Accepted here / steps that drafted it and accepted the position before."""


class RejectedPair(msgspec.Struct, frozen=True, kw_only=True):
    """A draft token and what the target put in its place."""

    drafted_id: int
    chosen_id: int
    drafted_text: str
    chosen_text: str
    count: int
    mean_rejected_logprob: float | None = None


class RejectionMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Why steps stopped, over one slice."""

    label: str
    num_rejections: int
    """Steps in which a draft token was refused."""
    num_fully_accepted: int
    first_position_share: float | None
    """Of the rejections, those at draft position 0."""
    near_miss_share: float | None
    """Of the rejections with a known rank, those where the refused token was the target's rank 2 to 5."""
    rank_histogram: dict[str, int] = msgspec.field(default_factory=dict)
    """Refused token's rank under the target: keys `1`, `2`, `3-5`, `6-20`, `21+` (1 is an exact tie)."""
    pairs: tuple[RejectedPair, ...] = ()
    """Most frequent first."""


class TimingMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Speed of the uncaptured passes. Not interleaved: for orientation, no verdict rests on it."""

    speculative_output_tokens_per_s: float | None
    target_only_output_tokens_per_s: float | None
    speculative_duration_s: float | None
    target_only_duration_s: float | None
    speculative_mean_ttft_s: float | None = None
    target_only_mean_ttft_s: float | None = None
    speculative_mean_tpot_s: float | None = None
    target_only_mean_tpot_s: float | None = None


class LosslessMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """How many outputs were the target's own."""

    num_compared: int
    num_identical: int
    num_ties: int
    """Parted at a numerical near-tie of the target."""
    num_faults: int
    """Parted where the target clearly preferred its own token."""
    num_untriaged: int
    """Parted, and the target's scores at that place are not known."""
    tie_margin: float | None = None
    """Nats; measured on this machine."""


TrialVerdict = Literal["explains", "helps a little", "undecided", "no effect", "worse", "failed"]
"""`explains`: on texts that had no part in picking it, the interval excludes zero and the effect is worth
naming. `helps a little`: it excludes zero, and is too small to act on."""


class TrialRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was changed, and what came of it."""

    name: str
    kind: str
    """intervention, reproduction, engine-run or traffic"""
    cause: str
    change: str
    measure: str
    """verify-steps, equal-drafts or acceptance"""
    before: Estimate
    """Tokens per step; for equal-drafts the share of draft tokens equal to the engine's."""
    after: Estimate
    effect: Estimate
    """Relative change of the steps a text takes (negative is better); for equal-drafts the change of the
    share (positive is better). Paired by text."""
    verdict: TrialVerdict
    confirmed: bool
    """Judged on texts other than those on which it was picked."""
    remedy: str = ""
    failed: str | None = None


class ReferenceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The reference drafter along the target's own texts: what a right engine would accept."""

    reader: str
    """Engine whose reading of the draft config it follows."""
    device: str
    dtype: str
    overall: AcceptanceMetrics
    by_category: dict[str, AcceptanceMetrics] = msgspec.field(default_factory=dict)
    by_position: tuple[PositionMetrics, ...] = ()
    by_context: tuple[AcceptanceMetrics, ...] = ()
    by_segment: dict[str, AcceptanceMetrics] = msgspec.field(default_factory=dict)
    engine_excess_steps: Estimate
    """Engine's steps / reference's steps - 1 over the same texts; above zero the engine accepts less."""
    equal_drafts: Estimate
    """Draft tokens of the engine that the reference drafts too, at the same place."""
    target_agreement: Estimate
    """Answer tokens that are the reference target's own first choice."""
    shuffled_excess_steps: Estimate
    """Steps with the context in random order / steps - 1: about zero where drafts ignore the context."""
    profile: DraftProfile | None = None
    missing_tensors: tuple[str, ...] = ()
    ignored_tensors: tuple[str, ...] = ()
    zero_tensors: tuple[str, ...] = ()
    num_non_finite_states: int = 0


class ExperimentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All that was tried to find causes."""

    reference: ReferenceRecord | None = None
    trials: tuple[TrialRecord, ...] = ()
    """Those that explain the loss first, then in the order in which they were tried."""
    not_tried: tuple[str, ...] = ()
    budget_s: float | None = None
    spent_s: float = 0.0
    stopped: str | None = None


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Everything counted."""

    overall: AcceptanceMetrics | None = None
    by_category: dict[str, AcceptanceMetrics] = msgspec.field(default_factory=dict)
    by_position: tuple[PositionMetrics, ...] = ()
    by_context: tuple[AcceptanceMetrics, ...] = ()
    """Buckets of the number of tokens before the draft (prompt + output so far)."""
    by_segment: dict[str, AcceptanceMetrics] = msgspec.field(default_factory=dict)
    """`thinking` (inside the block) and `answer`; empty where the tokenizer has no thinking tokens."""
    rejections: RejectionMetrics | None = None
    rejections_by_category: dict[str, RejectionMetrics] = msgspec.field(default_factory=dict)
    lossless: LosslessMetrics | None = None
    timing: TimingMetrics | None = None
    experiments: ExperimentRecord | None = None


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """The place a finding points at."""

    file: str | None = None
    field: str | None = None
    """Path of a key in that file, dotted."""
    line: int | None = None
    """From 1."""
    prompt_id: str | None = None
    category: str | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, typed so that writers only print.

    `message` says what is wrong, `observed` and `expected` what was seen, `remedy` what to do.
    """

    code: str
    severity: Severity
    message: str
    observed: str = ""
    expected: str = ""
    remedy: str = ""
    where: Where = msgspec.field(default_factory=Where)
    causes: tuple[str, ...] = ()
    """Names from the cause catalog this finding speaks for, likeliest first."""
    numbers: dict[str, float] = msgspec.field(default_factory=dict)
    edit: str | None = None
    """The exact edit or engine flag that puts it right; `None` where none can be given."""


class CheckRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one check said."""

    code: str
    name: str
    family: str
    verdict: Verdict
    reason: str = ""
    """Why, in one sentence: what was seen when it passed, what is missing when it could not judge."""
    findings: tuple[Finding, ...] = ()


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A named cause with what speaks for and against it."""

    cause: str
    confidence: float
    kind: str
    """pair, engine, backend, settings, traffic, measurement, benign, environment"""
    summary: str
    evidence: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    remedy: str = ""
    codes: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


class PairRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was tested, by name and by content."""

    target: str
    draft: str | None
    method: str
    target_sha256: str | None = None
    """Of the config and the tensor headers (not of the weights)."""
    draft_sha256: str | None = None


class WorkloadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked."""

    source: str
    num_prompts: int
    sha256: str
    """Over ids and contents, in order."""
    categories: dict[str, int]
    chat_template_sha256: str | None = None
    thinking: str = "off"
    max_tokens: int | None = None
    temperature: float = 0.0
    seed: int = 0


class ToolRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Which doctor wrote this."""

    name: str = "dflash-doctor"
    version: str = ""


class Artifacts(msgspec.Struct, frozen=True, kw_only=True):
    """Files beside the record, as names relative to its folder."""

    report: str | None = None
    traces: str | None = None
    engine_log: str | None = None


class PhaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the run, for `what took so long` and for runs that died half-way."""

    name: str
    duration_s: float
    completed: bool
    detail: str = ""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one run learnt."""

    schema_version: int
    tool: ToolRecord
    run_id: str
    started_at: str
    """UTC, ISO 8601."""
    duration_s: float
    verdict: Verdict
    summary: str
    """The verdict in one sentence, for people."""
    pair: PairRecord
    engine: EngineFacts | None
    level: Level | None
    environment: dict[str, Any]
    settings: dict[str, Any]
    setting_origins: dict[str, str] = msgspec.field(default_factory=dict)
    """Where each setting came from: default, a file, a variable or the command line."""
    workload: WorkloadRecord | None
    contract: ContractEvidence | None = None
    """What files, packages and settings say, without the long lists."""
    metrics: Metrics
    checks: tuple[CheckRecord, ...]
    diagnosis: tuple[Cause, ...]
    """Best first; empty when healthy."""
    phases: tuple[PhaseRecord, ...] = ()
    incomplete: str | None = None
    """Why the run stopped early; `None` when it ran to the end."""
    artifacts: Artifacts = msgspec.field(default_factory=Artifacts)


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a run record."""
    schema = msgspec.json.schema(RunRecord)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dflash-doctor run record",
        **schema,
    }
