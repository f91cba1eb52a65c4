"""The file a capture writes: length-prefixed msgpack blocks of columns, one file per worker process.

Columns instead of one object per step keep the worker's own work to a few array copies (the engine
pays for every microsecond spent there); the doctor does the unpacking.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from dflash_doctor.evidence import VerifyStep

_LENGTH = struct.Struct("<I")


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Rows (one request, one verify step each) as columns.

    `num_drafted`, `num_emitted` int32 [rows]; `position` int64 [rows], index in prompt + output of the
    first emitted token; `time_s` float64 [rows]; `scores` float32 [rows, 4]: log-probability and rank of
    the rejected draft token (NaN where none was), then of the chosen token; `drafts`, `emitted` int32,
    the rows' tokens end to end.
    """

    request_ids: list[str]
    num_drafted: bytes
    num_emitted: bytes
    position: bytes
    time_s: bytes
    scores: bytes
    drafts: bytes
    emitted: bytes


def append_block(path: Path, block: Block) -> None:
    """Write one block and close the file: a killed worker loses at most what came after."""
    raw = msgspec.msgpack.encode(block)
    with path.open("ab") as file:
        file.write(_LENGTH.pack(len(raw)) + raw)


def read_steps(path: Path, *, started_s: float) -> Iterator[tuple[str, VerifyStep]]:
    """Every captured step with the engine's own request id, in file order.

    A block cut short by a killed worker ends the reading without an error.

    Args:
        path: a capture file.
        started_s: monotonic clock at the start of the pass; step times count from there.
    """
    decoder = msgspec.msgpack.Decoder(Block)
    with path.open("rb") as file:
        while len(prefix := file.read(_LENGTH.size)) == _LENGTH.size:
            raw = file.read(_LENGTH.unpack(prefix)[0])
            if len(raw) < _LENGTH.unpack(prefix)[0]:
                return
            yield from _unpack(decoder.decode(raw), started_s)


def _unpack(block: Block, started_s: float) -> Iterator[tuple[str, VerifyStep]]:
    drafted = np.frombuffer(block.num_drafted, np.int32).tolist()
    emitted_counts = np.frombuffer(block.num_emitted, np.int32).tolist()
    positions = np.frombuffer(block.position, np.int64).tolist()
    times = (np.frombuffer(block.time_s, np.float64) - started_s).tolist()
    scores = np.frombuffer(block.scores, np.float32).reshape(-1, 4).tolist()
    drafts = np.frombuffer(block.drafts, np.int32).tolist()
    emitted = np.frombuffer(block.emitted, np.int32).tolist()
    draft_at = emitted_at = 0
    for row, request_id in enumerate(block.request_ids):
        draft_end, emitted_end = draft_at + drafted[row], emitted_at + emitted_counts[row]
        accepted = emitted_counts[row] - 1
        rejected_logprob, rejected_rank, chosen_logprob, chosen_rank = scores[row]
        was_rejected = accepted < drafted[row]
        yield (
            request_id,
            VerifyStep(
                num_drafted=drafted[row],
                num_accepted=accepted,
                position=positions[row],
                draft_ids=tuple(drafts[draft_at:draft_end]),
                emitted_ids=tuple(emitted[emitted_at:emitted_end]),
                rejected_logprob=_finite(rejected_logprob) if was_rejected else None,
                rejected_rank=_rank(rejected_rank) if was_rejected else None,
                chosen_logprob=_finite(chosen_logprob),
                chosen_rank=_rank(chosen_rank),
                time_s=round(times[row], 6),
            ),
        )
        draft_at, emitted_at = draft_end, emitted_end


def _finite(value: float) -> float | None:
    """A log-probability to five digits: float32 holds no more; not-a-number is no data."""
    return round(value, 5) if -1e30 < value < 1e30 else None


def _rank(value: float) -> int | None:
    return int(value) if value == value else None
