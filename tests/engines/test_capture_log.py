"""The capture file gives back what was written, and survives a writer that was killed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.engines.capture_log import Block, append_block, read_steps


@st.composite
def rows(draw: st.DrawFn) -> list[tuple[str, list[int], list[int], int]]:
    """(request id, drafts, emitted, position) with accepted drafts repeated at the front of emitted."""
    found = []
    for index in range(draw(st.integers(1, 6))):
        drafts = draw(st.lists(st.integers(0, 200_000), min_size=1, max_size=16))
        num_accepted = draw(st.integers(0, len(drafts)))
        last = draw(st.integers(0, 200_000))
        found.append((f"{index}-ab", drafts, [*drafts[:num_accepted], last], draw(st.integers(1, 1 << 40))))
    return found


def block_of(items: list[tuple[str, list[int], list[int], int]]) -> Block:
    scores = [
        [float("nan")] * 2 + [-0.5, 1.0] if len(emitted) == len(drafts) + 1 else [-3.25, 7.0, -0.5, 1.0]
        for _, drafts, emitted, _ in items
    ]
    return Block(
        request_ids=[item[0] for item in items],
        num_drafted=np.array([len(item[1]) for item in items], np.int32).tobytes(),
        num_emitted=np.array([len(item[2]) for item in items], np.int32).tobytes(),
        position=np.array([item[3] for item in items], np.int64).tobytes(),
        time_s=np.array([100.5] * len(items), np.float64).tobytes(),
        scores=np.array(scores, np.float32).tobytes(),
        drafts=np.array([token for item in items for token in item[1]], np.int32).tobytes(),
        emitted=np.array([token for item in items for token in item[2]], np.int32).tobytes(),
    )


@given(rows(), rows())
def test_read_steps_when_two_blocks_were_written_then_gives_both_back(
    tmp_path_factory: object, first: list, second: list
) -> None:
    path = Path(tmp_path_factory.mktemp("capture")) / "steps.1.bin"  # type: ignore[attr-defined]
    append_block(path, block_of(first))
    append_block(path, block_of(second))
    read = list(read_steps(path, started_s=100.0))
    assert [request for request, _ in read] == [item[0] for item in first + second]
    for (_, step), (_, drafts, emitted, position) in zip(read, first + second, strict=True):
        assert step.draft_ids == tuple(drafts)
        assert step.emitted_ids == tuple(emitted)
        assert step.num_drafted == len(drafts)
        assert step.num_accepted == len(emitted) - 1
        assert step.position == position
        assert step.time_s == 0.5
        rejected = step.num_accepted < step.num_drafted
        assert step.rejected_rank == (7 if rejected else None)
        assert step.rejected_logprob == (-3.25 if rejected else None)
        assert step.chosen_rank == 1


def test_read_steps_when_the_last_block_is_cut_short_then_keeps_the_whole_ones(tmp_path: Path) -> None:
    path = tmp_path / "steps.1.bin"
    items = [("0-a", [5, 6], [5, 9], 12)]
    append_block(path, block_of(items))
    whole = path.read_bytes()
    append_block(path, block_of(items))
    path.write_bytes(path.read_bytes()[:-3])
    assert len(list(read_steps(path, started_s=0.0))) == 1
    path.write_bytes(whole[:2])
    assert list(read_steps(path, started_s=0.0)) == []
