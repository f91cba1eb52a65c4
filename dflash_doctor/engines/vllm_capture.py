"""Records every verify step inside a vLLM worker, by standing in for `model_runner.rejection_sampler`.

The rejection sampler is the one place where draft tokens, the target's logits and the tokens kept meet,
in both model runners and under synchronous and asynchronous scheduling. The stand-in calls the real one
first and touches nothing it returns, so decoding is the same with capture on. What it keeps per step:
draft ids, emitted ids, position, and, for the one row per request that decided, the target's
log-probability and rank of the rejected and of the chosen token.

No tensor is read back on the hot path: on an accelerator the few small results are copied to pinned
memory without waiting, and turned into a block some steps later. Any failure is counted and ends the
capture, never the serving.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from dflash_doctor.engines.capture_log import Block, append_block

_STEPS_PER_BLOCK = 128
_ELEMENTS_PER_CHUNK = 1 << 24
"""Bounds the float32 copy of the decided logits rows: 67 MB, which is 64 rows of a 256k vocabulary."""


class _Rows(NamedTuple):
    """Where things lie in one step's batch: `[B]` requests, `[R]` logits rows (k + 1 per request)."""

    request_ids: list[str]
    first_row: torch.Tensor
    """[B] row of each request that verifies its first draft token."""
    num_drafted: torch.Tensor
    """[B]"""
    draft_ids: torch.Tensor
    """[N] draft tokens of all requests; N may include gaps."""
    first_draft: torch.Tensor
    """[B] index into draft_ids of each request's first draft token."""
    position: torch.Tensor
    """[B] position of the token in front of the first draft token."""


class _Pending(NamedTuple):
    """A step whose results may still be on their way from the device."""

    request_ids: list[str]
    time_s: float
    columns: tuple[torch.Tensor, ...]
    """num_drafted, draft_ids, first_draft, position, emitted [B, W], num_emitted, scores [B, 4]"""
    largest_logit: torch.Tensor
    arrived: Any
    """An event to wait for, or None where the copies were immediate."""


class DraftCapture:
    """A callable stand-in for a rejection sampler; everything else is passed on to the real one."""

    def __init__(self, inner: Any, runner: Any, path: Path) -> None:
        self._inner = inner
        self._runner = runner
        self._path = path
        self._pending: list[_Pending] = []
        self.num_steps = 0
        self.num_errors = 0
        self.last_error: str | None = None
        self.max_logit: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def inner(self) -> Any:
        """The real rejection sampler."""
        return self._inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self._inner(*args, **kwargs)
        if self.num_errors == 0:
            try:
                self._record(args, kwargs, output)
            except Exception as error:
                self._fail(error)
        return output

    def close(self) -> None:
        """Write out what is pending."""
        try:
            if self._pending:
                pending, self._pending = self._pending, []
                append_block(self._path, self._block(pending))
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.num_errors += 1
        self.last_error = f"{type(error).__name__}: {error}"

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if hasattr(self._runner, "input_batch"):
            logits, rows = _rows_of_v1(self._runner, args, kwargs)
        else:
            logits, rows = _rows_of_v2(args, kwargs)
        if rows is None or rows.draft_ids.shape[0] == 0:
            return  # nobody drafted: prefill only
        sampled = getattr(output, "sampled_token_ids", output)
        counted = getattr(output, "num_sampled", None)
        num_emitted = (sampled >= 0).sum(dim=1) if counted is None else counted
        scores, largest = _scores(logits, rows, sampled, num_emitted)
        tensors = (
            rows.num_drafted,
            rows.draft_ids,
            rows.first_draft,
            rows.position,
            sampled,
            num_emitted,
            scores,
            largest,
        )
        *columns, largest_copy = (_to_host(tensor) for tensor in tensors)
        arrived = None
        if logits.device.type == "cuda":
            arrived = torch.Event(logits.device)
            arrived.record()
        now = time.monotonic()
        self._pending.append(_Pending(rows.request_ids, now, tuple(columns), largest_copy, arrived))
        self.num_steps += 1
        if len(self._pending) >= 2 * _STEPS_PER_BLOCK:
            # The older half has certainly arrived; the newer half may still be in flight.
            ready, self._pending = self._pending[:_STEPS_PER_BLOCK], self._pending[_STEPS_PER_BLOCK:]
            append_block(self._path, self._block(ready))

    def _block(self, steps: list[_Pending]) -> Block:
        names: list[str] = []
        times: list[float] = []
        columns: list[list[np.ndarray]] = [[] for _ in range(6)]
        for step in steps:
            if step.arrived is not None:
                step.arrived.synchronize()
            largest = float(step.largest_logit)
            self.max_logit = largest if self.max_logit is None else max(self.max_logit, largest)
            drafted, draft_ids, first_draft, position, emitted, num_emitted, scores = (
                column.numpy() for column in step.columns
            )
            kept = np.flatnonzero((drafted > 0) & (num_emitted > 0))
            names.extend(step.request_ids[index] for index in kept)
            times.extend([step.time_s] * len(kept))
            within = np.arange(emitted.shape[1]) < num_emitted[kept, None]
            slots = np.arange(int(drafted.max(initial=0)))
            drafted_there = slots < drafted[kept, None]
            draft_index = (first_draft[kept, None] + slots)[drafted_there]
            parts = (
                drafted[kept].astype(np.int32),
                num_emitted[kept].astype(np.int32),
                (position[kept] + 1).astype(np.int64),
                scores[kept].astype(np.float32),
                draft_ids[draft_index].astype(np.int32),
                emitted[kept][within].astype(np.int32),
            )
            for column, part in zip(columns, parts, strict=True):
                column.append(part)
        packed = [np.concatenate(column).tobytes() for column in columns]
        return Block(
            request_ids=names,
            num_drafted=packed[0],
            num_emitted=packed[1],
            position=packed[2],
            time_s=np.asarray(times, np.float64).tobytes(),
            scores=packed[3],
            drafts=packed[4],
            emitted=packed[5],
        )


def _rows_of_v1(
    runner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.Tensor, _Rows | None]:
    """`rejection_sampler(metadata, draft_probs, logits, sampling_metadata)`, vLLM 0.14 and later."""
    named = dict(zip(("metadata", "draft_probs", "logits"), args, strict=False)) | kwargs
    metadata, logits = named["metadata"], named["logits"]
    num_drafted = metadata.num_draft_tokens
    if runner.input_batch.num_reqs != len(num_drafted):
        return logits, None  # a warm-up batch: no requests stand behind it
    ends = metadata.cu_num_draft_tokens
    counts = torch.diff(ends, prepend=ends.new_zeros(1))
    first_draft = ends - counts
    first_row = first_draft + torch.arange(len(num_drafted), device=ends.device)
    positions = runner.positions
    positions = positions if torch.is_tensor(positions) else positions.gpu
    return logits, _Rows(
        request_ids=list(runner.input_batch.req_ids[: len(num_drafted)]),
        first_row=first_row,
        num_drafted=counts,
        draft_ids=metadata.draft_token_ids,
        first_draft=first_draft,
        position=positions[metadata.logits_indices[first_row]],
    )


def _rows_of_v2(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor, _Rows | None]:
    """`rejection_sampler(logits, input_batch, draft_logits, invalid_drafts)`, vLLM 0.20 and later."""
    named = dict(zip(("logits", "input_batch"), args, strict=False)) | kwargs
    batch = named["input_batch"]
    num_requests = len(batch.req_ids)
    bounds = batch.cu_num_logits[: num_requests + 1]
    first_row = bounds[:-1].clone()
    indices = batch.logits_indices
    return named["logits"], _Rows(
        request_ids=list(batch.req_ids),
        first_row=first_row,
        num_drafted=torch.diff(bounds) - 1,
        # Row 0 of a request reads its last token, rows 1.. read the drafts.
        draft_ids=batch.input_ids[indices],
        first_draft=first_row + 1,
        position=batch.positions[indices[first_row]],
    )


def _scores(
    logits: torch.Tensor, rows: _Rows, sampled: torch.Tensor, num_emitted: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The target's view of the deciding row of each request, and the largest absolute logit there.

    Returns:
        [B, 4] float32: log-probability and rank of the rejected draft token (NaN where all drafts were
        accepted), then of the chosen token; and a scalar.
    """
    accepted = (num_emitted - 1).clamp(min=0)
    deciding = rows.first_row + accepted
    chosen = sampled.gather(1, accepted.unsqueeze(1)).clamp(min=0)
    was_rejected = accepted < rows.num_drafted
    draft_index = (rows.first_draft + accepted).clamp(max=max(0, rows.draft_ids.shape[0] - 1))
    rejected = torch.where(was_rejected, rows.draft_ids[draft_index], chosen.squeeze(1))
    pairs = torch.stack((rejected.to(chosen.dtype), chosen.squeeze(1)), dim=1).long()
    logprobs, ranks, largest = [], [], []
    rows_per_chunk = max(1, _ELEMENTS_PER_CHUNK // logits.shape[1])
    for start in range(0, pairs.shape[0], rows_per_chunk):
        row = logits[deciding[start : start + rows_per_chunk]].float()
        value = row.gather(1, pairs[start : start + rows_per_chunk].clamp(min=0, max=row.shape[1] - 1))
        logprobs.append(value - row.logsumexp(dim=1, keepdim=True))
        # Compared into a float buffer: five times cheaper than summing booleans, and exact up to 2^24.
        above = torch.empty_like(row)
        counts = [torch.gt(row, value[:, i : i + 1], out=above).sum(dim=1) for i in (0, 1)]
        ranks.append(torch.stack(counts, dim=1) + 1)
        largest.append(value[:, 1].abs().max())
    logprob, rank = torch.cat(logprobs), torch.cat(ranks)
    scores = torch.stack((logprob[:, 0], rank[:, 0], logprob[:, 1], rank[:, 1]), dim=1)
    scores[:, :2].masked_fill_(~was_rejected.unsqueeze(1), float("nan"))
    return scores, torch.stack(largest).max()


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in host memory, complete at once on a CPU and when the event fires on an accelerator."""
    if tensor.device.type == "cpu":
        return tensor.clone()
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)
