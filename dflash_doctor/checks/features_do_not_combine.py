"""Settings that do not work together with speculation

## What it checks

Engine arguments against a table of combinations that fail, go wrong in silence, or cost something nobody
asked for: pipeline parallelism, prompt embeddings, fused projections under tensor parallelism, a draft
length schedule under data parallelism, a draft tensor-parallel size that is neither 1 nor the target's, K
against the scheduler's batch of tokens, SGLang's silent cap of 48 running requests, and the like.

## Why it matters

Some are refused at start, one at a time. Others run: with prompt embeddings drafted positions reuse stale
ones and acceptance is very low (vllm-project/vllm#57356); with pipeline parallelism only the last rank
keeps the books (vllm-project/vllm#44697).

## Example

    DF127 pipeline parallelism and speculation do not combine
      seen:     pipeline_parallel_size=2
      do:       use tensor parallelism

## What to do

Change the setting that the finding names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dflash_doctor.checks.base import Case, Outcome, settled
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding, Severity


@dataclass(frozen=True)
class Combination:
    """A combination and when it is there: the predicate gives what was seen, `None` where it is not."""

    message: str
    severity: Severity
    seen: Callable[[PairView], str | None]
    remedy: str
    cause: str
    edit: str | None = None
    engines: tuple[str, ...] = ("vllm", "sglang")


def judge(case: Case) -> Outcome:
    """Walk the table."""
    view = pair_view(case, blocks_only=False)
    if isinstance(view, Outcome):
        return view
    asked = [row for row in COMBINATIONS if view.engine in row.engines]
    found = [(row, seen) for row in asked if (seen := row.seen(view)) is not None]
    findings = [
        Finding(
            code="DF127",
            severity=row.severity,
            message=row.message,
            observed=seen,
            expected="settings that combine with speculation",
            remedy=row.remedy,
            edit=row.edit,
            causes=(row.cause,),
        )
        for row, seen in found
    ]
    return settled(findings, compared=[f"{len(asked)} combinations that are known to fail are not set"])


def _number(view: PairView, *names: str) -> int | None:
    value = view.argument(*names)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _above_one(*names: str) -> Callable[[PairView], str | None]:
    def seen(view: PairView) -> str | None:
        value = _number(view, *names)
        return f"{names[0]}={value}" if value is not None and value > 1 else None

    return seen


def _switched_on(*names: str) -> Callable[[PairView], str | None]:
    return lambda view: f"{names[0]}=true" if view.flag(*names) else None


def _fused_under_tensor_parallel(view: PairView) -> str | None:
    size = _number(view, "tensor_parallel_size", "tp_size")
    fused = any(".qkv_proj." in item.name for item in view.draft.tensors or ())
    if size is None or size < 2 or not fused:
        return None
    heads = view.config.num_kv_heads
    return f"tensor_parallel_size={size}; the drafter stores fused qkv_proj ({heads or 'unknown'} KV heads)"


def _heads_do_not_divide(view: PairView) -> str | None:
    size = _number(view, "tensor_parallel_size", "tp_size")
    own = view.speculative("draft_tensor_parallel_size")
    size = own if isinstance(own, int) else size
    heads, kv = view.config.num_heads, view.config.num_kv_heads
    if size is None or size < 2 or heads is None:
        return None
    if heads % size:
        return f"tensor_parallel_size={size}; the drafter has {heads} heads"
    if kv is not None and kv % size and size % kv:
        return f"tensor_parallel_size={size}; the drafter has {kv} KV heads"
    return None


def _odd_draft_parallel(view: PairView) -> str | None:
    own = view.speculative("draft_tensor_parallel_size")
    size = _number(view, "tensor_parallel_size", "tp_size") or 1
    if not isinstance(own, int) or own in (1, size):
        return None
    return f"draft_tensor_parallel_size={own}, tensor_parallel_size={size}"


def _schedule_under_data_parallel(view: PairView) -> str | None:
    size = _number(view, "data_parallel_size")
    if view.speculative("num_speculative_tokens_per_batch_size") is None or size is None or size < 2:
        return None
    return f"num_speculative_tokens_per_batch_size with data_parallel_size={size}"


def _batch_too_small(view: PairView) -> str | None:
    budget = _number(view, "max_num_batched_tokens")
    sequences = _number(view, "max_num_seqs")
    width = view.served.num_draft_tokens if view.served is not None else None
    if budget is None or sequences is None or width is None or budget >= sequences * (width + 1):
        return None
    return (
        f"max_num_batched_tokens={budget}; {sequences} sequences of {width + 1} verified tokens need "
        f"{sequences * (width + 1)}"
    )


def _silent_cap(view: PairView) -> str | None:
    return "max_running_requests is not set" if view.argument("max_running_requests") is None else None


def _widths_differ(view: PairView) -> str | None:
    first = view.argument("speculative_num_draft_tokens")
    second = view.argument("speculative_dflash_block_size")
    if first is None or second is None or first == second:
        return None
    return f"speculative_num_draft_tokens={first}, speculative_dflash_block_size={second}"


def _window_below_block(view: PairView) -> str | None:
    window, block = _number(view, "speculative_draft_window_size"), view.config.block_size
    if window is None or block is None or window >= block:
        return None
    return f"speculative_draft_window_size={window}, block_size {block}"


def _enforcer_backend(view: PairView) -> str | None:
    backend = view.argument("structured_outputs_config.backend", "guided_decoding_backend")
    return f"backend {backend}" if backend == "lm-format-enforcer" else None


COMBINATIONS: tuple[Combination, ...] = (
    Combination(
        "pipeline parallelism and speculation do not combine",
        "error",
        _above_one("pipeline_parallel_size", "pp_size"),
        "use tensor parallelism until the engine declares support for the pair",
        "tensor-parallel-inconsistent",
        "--engine-arg pipeline_parallel_size=1",
    ),
    Combination(
        "prompt embeddings and speculation do not combine",
        "warning",
        _switched_on("enable_prompt_embeds"),
        "switch prompt embeddings off, or take a version with the fix of vllm-project/vllm#57356",
        "draft-context-polluted",
        "--engine-arg enable_prompt_embeds=false",
        ("vllm",),
    ),
    Combination(
        "fused projections of the drafter are split over ranks",
        "warning",
        _fused_under_tensor_parallel,
        "compare acceptance at tensor_parallel_size=1, or give the drafter draft_tensor_parallel_size 1",
        "tensor-parallel-inconsistent",
        "--engine-arg speculative_config.draft_tensor_parallel_size=1",
    ),
    Combination(
        "the drafter's heads cannot be split over that many ranks",
        "error",
        _heads_do_not_divide,
        "give the drafter a tensor-parallel size that divides its heads",
        "tensor-parallel-inconsistent",
        "--engine-arg speculative_config.draft_tensor_parallel_size=1",
    ),
    Combination(
        "the drafter's tensor-parallel size is neither 1 nor the target's",
        "error",
        _odd_draft_parallel,
        "set draft_tensor_parallel_size to 1 or to the target's",
        "tensor-parallel-inconsistent",
        "--engine-arg speculative_config.draft_tensor_parallel_size=1",
        ("vllm",),
    ),
    Combination(
        "a schedule of draft lengths is switched off under data parallelism",
        "warning",
        _schedule_under_data_parallel,
        "serve without data parallelism, or without the schedule",
        "num-speculative-tokens-too-large",
        engines=("vllm",),
    ),
    Combination(
        "a full batch of drafts does not fit into one pass",
        "warning",
        _batch_too_small,
        "raise max_num_batched_tokens, or lower max_num_seqs or K",
        "concurrency-too-high",
        engines=("vllm",),
    ),
    Combination(
        "the structured-output backend does not take several tokens at once",
        "error",
        _enforcer_backend,
        "take xgrammar or llguidance",
        "structured-output-broken",
        engines=("vllm",),
    ),
    Combination(
        "SGLang caps running requests at 48 under DFlash",
        "info",
        _silent_cap,
        "set max_running_requests to what the memory allows",
        "concurrency-too-high",
        engines=("sglang",),
    ),
    Combination(
        "the two spellings of the block width differ",
        "error",
        _widths_differ,
        "give one of them",
        "num-speculative-tokens-exceeds-block",
        engines=("sglang",),
    ),
    Combination(
        "the draft window is smaller than the block",
        "error",
        _window_below_block,
        "set the window to the block size or more",
        "sliding-window-ignored",
        engines=("sglang",),
    ),
)
"""Source: the engines' own argument checks (vLLM 0.32, SGLang 0.5.23) and the threads named above."""
