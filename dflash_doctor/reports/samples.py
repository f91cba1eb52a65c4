"""Packs single requests for the sample browser: integer columns, one table of token texts, gzip, base64.

    4 bytes   length of the header, little endian
    header    JSON, padded to a multiple of 4: texts, names, divergences, and the columns that follow
    columns   unsigned integers of 2 or 4 bytes, little endian, each padded to a multiple of 4

In every column the largest value means "no data". What follows from the rest is not stored: the place of a
step (`moved_to`) where it continues the one before, and output tokens where prefill token and steps give
them; both is nearly always so.
"""

from __future__ import annotations

import base64
import gzip
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dflash_doctor.evidence import Divergence, Evidence, RequestTrace, VerifyStep, requests_of
from dflash_doctor.metrics.divergence import kind_of
from dflash_doctor.reports.wording import visible

MAX_TOKENS = 6_000_000
"""Draft and prompt tokens that one page carries: about 10 MB, which a browser opens in a second or two."""
MAX_PROMPT_TOKENS = 400_000
"""Of these, for the ends of prompts; all of a prompt is in the trace file."""
PROMPT_TAIL_RANGE = (64, 1024)
MAX_TEXT_LENGTH = 200
"""Longest text shown for one token, in characters."""
ALTERNATIVE_LENGTH = 48
"""Tokens of the target-only continuation that are kept from a divergence on."""

LOGPROB_STEP = 0.001
"""Nats per unit: fine enough to tell a near-tie, small enough for two bytes."""
_NO_TOKEN = -1
_NONE_2, _NONE_4 = 0xFFFF, 0xFFFFFFFF


def pack_samples(evidence: Evidence, *, void: Mapping[str, str] | None = None) -> str:
    """Base64 of the gzipped samples; empty when the speculative arm has no requests.

    Args:
        evidence: of the run.
        void: why a sample is void, by prompt id.

    Everything invisible in token texts is written out, so that no text can disturb the page.
    """
    requests = requests_of(evidence.speculative)
    if not requests:
        return ""
    packer = _Packer(evidence, void or {})
    chosen = choose_requests(requests, first=packer.notable, max_tokens=MAX_TOKENS)
    tail = min(max(PROMPT_TAIL_RANGE[0], MAX_PROMPT_TOKENS // len(chosen)), PROMPT_TAIL_RANGE[1])
    for index in chosen:
        packer.add(requests[index], tail=tail)
    # No time stamp, so that the same run gives the same bytes.
    raw = gzip.compress(packer.document(num_in_run=len(requests)), compresslevel=6, mtime=0)
    return base64.b64encode(raw).decode("ascii")


def choose_requests(
    requests: Sequence[RequestTrace], *, first: frozenset[str], max_tokens: int
) -> tuple[int, ...]:
    """Indices of the requests that fit, in the order of the run.

    Those named in `first` come before the others, which are then taken evenly over the run.
    """
    sizes = [_size(trace) for trace in requests]
    if sum(sizes) <= max_tokens:
        return tuple(range(len(requests)))
    wanted = [index for index, trace in enumerate(requests) if trace.prompt_id in first]
    others = [index for index, trace in enumerate(requests) if trace.prompt_id not in first]
    room = max(0, max_tokens - sum(sizes[index] for index in wanted))
    needed = sum(sizes[index] for index in others)
    stride = max(1, -(-needed // room)) if room else len(others) + 1
    kept: list[int] = []
    used = 0
    for index in (*wanted, *others[::stride]):
        used += sizes[index]
        if used > max_tokens and kept:
            break
        kept.append(index)
    return tuple(sorted(kept))


def _size(trace: RequestTrace) -> int:
    return len(trace.output_ids) + sum(step.num_drafted for step in trace.steps or ())


class _Packer:
    """Collects the columns of the samples added to it."""

    def __init__(self, evidence: Evidence, void: Mapping[str, str]) -> None:
        self._void = void
        self._texts = evidence.token_texts
        self._margin = evidence.noise.tie_margin if evidence.noise is not None else None
        self._divergences = {item.prompt_id: item for item in evidence.divergences or ()}
        self._target_only = {trace.prompt_id: trace for trace in requests_of(evidence.target_only)}
        self._names: dict[str, list[str]] = {"id": [], "category": [], "finish": []}
        self._places: dict[str, dict[str, int]] = {"category": {}, "finish": {}}
        self._parted: list[dict[str, Any]] = []
        self._voided: dict[str, str] = {}
        self._counts: dict[str, list[int | None]] = {name: [] for name in _COUNT_COLUMNS}
        self._tokens: dict[str, list[int]] = {name: [] for name in _TOKEN_COLUMNS}

    @property
    def notable(self) -> frozenset[str]:
        """Prompt ids that a reader will look for first."""
        return frozenset(self._divergences) | frozenset(self._void)

    def add(self, trace: RequestTrace, *, tail: int) -> None:
        """Append one request."""
        index = len(self._names["id"])
        self._names["id"].append(visible(trace.prompt_id))
        counts, tokens = self._counts, self._tokens
        counts["category"].append(self._place("category", trace.category))
        counts["finish"].append(self._place("finish", trace.finish_reason or "unknown"))
        shown = trace.prompt_ids[-tail:]
        tokens["prompt"] += shown
        counts["prompt_shown"].append(len(shown))
        counts["prompt_length"].append(len(trace.prompt_ids))
        counts["output_length"].append(len(trace.output_ids))
        tokens["first"].append(trace.output_ids[0] if trace.output_ids else _NO_TOKEN)
        steps = trace.steps
        counts["num_steps"].append(None if steps is None else len(steps))
        counters = trace.counters
        counts["counted_steps"].append(counters.num_drafts if counters else None)
        counts["counted_accepted"].append(counters.num_accepted_draft_tokens if counters else None)
        expected = len(trace.prompt_ids) + 1
        for step in steps or ():
            place = step.position if step.position is not None else expected
            counts["moved_to"].append(None if place == expected else place)
            self._add_step(step)
            expected = place + step.num_accepted + 1
        explicit = () if _follows_from_steps(trace) else trace.output_ids
        tokens["output"] += explicit
        counts["output_stored"].append(len(explicit))
        if trace.prompt_id in self._void:
            self._voided[str(index)] = visible(self._void[trace.prompt_id])
        if trace.prompt_id in self._divergences:
            self._add_divergence(index, self._divergences[trace.prompt_id])

    def _place(self, kind: str, text: str) -> int:
        places = self._places[kind]
        if text not in places:
            places[text] = len(places)
            self._names[kind].append(visible(text))
        return places[text]

    def _add_step(self, step: VerifyStep) -> None:
        counts, drafts = self._counts, step.draft_ids or ()
        counts["accepted"].append(step.num_accepted)
        counts["drafted"].append(step.num_drafted)
        counts["num_ids"].append(len(drafts))
        counts["rejected_logprob"].append(_units(step.rejected_logprob))
        counts["rejected_rank"].append(step.rejected_rank)
        counts["chosen_logprob"].append(_units(step.chosen_logprob))
        counts["chosen_rank"].append(step.chosen_rank)
        chosen = step.chosen_id
        self._tokens["chosen"].append(_NO_TOKEN if chosen is None else chosen)
        self._tokens["draft"] += drafts

    def _add_divergence(self, index: int, divergence: Divergence) -> None:
        alone = self._target_only.get(divergence.prompt_id)
        rest = alone.output_ids[divergence.index :][:ALTERNATIVE_LENGTH] if alone is not None else ()
        self._tokens["alternative"] += rest
        self._parted.append(
            {
                "sample": index,
                "index": divergence.index,
                "target_logprob": divergence.target_logprob,
                "speculative_logprob": divergence.speculative_logprob,
                "source": divergence.source,
                "kind": kind_of(divergence, tie_margin=self._margin),
                "num_alternative": len(rest),
                "alternative_ends": alone is not None
                and len(alone.output_ids) <= divergence.index + ALTERNATIVE_LENGTH,
            }
        )

    def document(self, *, num_in_run: int) -> bytes:
        """Header and columns."""
        used, streams = _dense(self._tokens)
        columns: list[dict[str, Any]] = []
        body = bytearray()
        for name, values in (*self._counts.items(), *streams.items()):
            data = _column(values)
            columns.append({"name": name, "bytes": data.itemsize, "length": int(data.size)})
            body += data.tobytes()
            body += bytes(-len(body) % 4)
        header = msgspec.json.encode(
            {
                "num_in_run": num_in_run,
                "logprob_step": LOGPROB_STEP,
                "token_ids": used,
                "texts": [self._text(token) for token in used],
                "names": self._names,
                "divergences": self._parted,
                "void": self._voided,
                "columns": columns,
            }
        )
        header += b" " * (-len(header) % 4)
        return len(header).to_bytes(4, "little") + header + bytes(body)

    def _text(self, token: int) -> str:
        if token not in self._texts:
            return f"<{token}>"
        text = visible(self._texts[token])
        return text if len(text) <= MAX_TEXT_LENGTH else text[:MAX_TEXT_LENGTH] + "…"


_COUNT_COLUMNS = (
    "category", "finish", "prompt_length", "prompt_shown", "output_length", "output_stored", "num_steps",
    "counted_steps", "counted_accepted",
    "accepted", "drafted", "num_ids", "moved_to",
    "rejected_logprob", "rejected_rank", "chosen_logprob", "chosen_rank",
)  # fmt: skip
_TOKEN_COLUMNS = ("prompt", "first", "draft", "chosen", "output", "alternative")


def _follows_from_steps(trace: RequestTrace) -> bool:
    """Whether prefill token + accepted drafts + chosen tokens, cut at the end, are the output."""
    if not trace.output_ids or not trace.steps:
        return not trace.output_ids
    emitted = [trace.output_ids[0]]
    for step in trace.steps:
        chosen = step.chosen_id
        if step.draft_ids is None or chosen is None:
            return False
        emitted += step.draft_ids[: step.num_accepted]
        emitted.append(chosen)
    return tuple(emitted[: len(trace.output_ids)]) == trace.output_ids


def _units(logprob: float | None) -> int | None:
    """Minus the log-probability in steps of 0.001 nats, at most what two bytes hold (65 nats)."""
    if logprob is None or math.isnan(logprob):
        return None
    return round(min(max(-logprob / LOGPROB_STEP, 0.0), _NONE_2 - 1.0))


def _dense(tokens: Mapping[str, Sequence[int]]) -> tuple[list[int], dict[str, list[int | None]]]:
    """The distinct token ids, and each stream as indices into them (`None`: no token)."""
    arrays = {name: np.asarray(values, np.int64) for name, values in tokens.items()}
    used, places = np.unique(np.concatenate(list(arrays.values())), return_inverse=True)
    ends = np.cumsum([array.size for array in arrays.values()])
    shift = 1 if used.size and used[0] == _NO_TOKEN else 0
    streams: dict[str, list[int | None]] = {}
    for name, part in zip(arrays, np.split(places - shift, ends[:-1]), strict=True):
        streams[name] = [None if place < 0 else place for place in part.tolist()]
    return used[shift:].tolist(), streams


def _column(values: Sequence[int | None]) -> NDArray[Any]:
    """The values as unsigned integers of the smaller size that fits them and "no data"."""
    largest = max((value for value in values if value is not None), default=0)
    none, kind = (_NONE_2, "<u2") if largest < _NONE_2 else (_NONE_4, "<u4")
    return np.asarray([none if value is None else value for value in values], kind)
