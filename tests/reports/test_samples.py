"""What is packed for the sample browser comes out again, whatever the engine gave."""

from __future__ import annotations

import base64
import gzip
import json
import math
import time
from typing import Any

import msgspec
import numpy as np
import pytest
from evidence_factory import make_evidence, make_generation, make_request, without_steps
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.evidence import Divergence, Evidence, RequestTrace, VerifyStep
from dflash_doctor.reports.samples import (
    ALTERNATIVE_LENGTH,
    LOGPROB_STEP,
    MAX_TEXT_LENGTH,
    PROMPT_TAIL_RANGE,
    choose_requests,
    pack_samples,
)


def unpack(packed: str) -> tuple[dict[str, Any], dict[str, list[int | None]]]:
    """Header and columns, read as the format is described."""
    raw = gzip.decompress(base64.b64decode(packed))
    size = int.from_bytes(raw[:4], "little")
    header = json.loads(raw[4 : 4 + size])
    place, columns = 4 + size, {}
    for column in header["columns"]:
        assert place % 4 == 0
        kind = {2: "<u2", 4: "<u4"}[column["bytes"]]
        values = np.frombuffer(raw, kind, column["length"], place).tolist()
        none = 256 ** column["bytes"] - 1
        columns[column["name"]] = [None if value == none else value for value in values]
        place += -(-column["bytes"] * column["length"] // 4) * 4
    assert place == len(raw)
    return header, columns


def read_back(packed: str) -> list[dict[str, Any]]:
    """Each sample as plain lists of token ids."""
    header, columns = unpack(packed)
    ids = header["token_ids"]
    take = {name: iter(values) for name, values in columns.items()}

    def tokens(name: str, count: int) -> list[int]:
        return [ids[next(take[name])] for _ in range(count)]

    found = []
    for index, name in enumerate(header["names"]["id"]):
        sample: dict[str, Any] = {"id": name}
        prompt_length = columns["prompt_length"][index]
        assert prompt_length is not None
        sample["prompt"] = tokens("prompt", columns["prompt_shown"][index] or 0)
        first = next(take["first"])
        emitted = [] if first is None else [ids[first]]
        place, steps = prompt_length + 1, []
        for _ in range(columns["num_steps"][index] or 0):
            accepted, chosen, moved = next(take["accepted"]), next(take["chosen"]), next(take["moved_to"])
            place = place if moved is None else moved
            drafts = tokens("draft", next(take["num_ids"]) or 0)
            chosen_id = None if chosen is None else ids[chosen]
            steps.append((place, accepted, next(take["drafted"]), drafts, chosen_id))
            emitted += [*drafts[:accepted], chosen_id]
            place += accepted + 1
        stored = columns["output_stored"][index] or 0
        length = columns["output_length"][index]
        sample["steps"] = steps
        sample["output"] = tokens("output", stored) if stored else emitted[:length]
        found.append(sample)
    return found


def evidence_of(*requests: RequestTrace, **changes: Any) -> Evidence:
    return make_evidence(speculative=make_generation(requests), target_only=None, **changes)


token = st.integers(0, 200_000)


@st.composite
def steps(draw: st.DrawFn) -> VerifyStep:
    drafts = draw(st.none() | st.lists(token, max_size=5).map(tuple))
    drafted = len(drafts) if drafts is not None else draw(st.integers(0, 5))
    accepted = draw(st.integers(0, drafted))
    return VerifyStep(
        num_drafted=drafted,
        num_accepted=accepted,
        position=draw(st.none() | st.integers(0, 100_000)),
        draft_ids=drafts,
        emitted_ids=draw(st.none() | st.lists(token, min_size=1, max_size=3).map(tuple)),
        rejected_logprob=draw(st.none() | st.floats(max_value=0)),
        rejected_rank=draw(st.none() | st.integers(1, 200_000)),
        chosen_logprob=draw(st.none() | st.floats(max_value=0)),
    )


@st.composite
def requests(draw: st.DrawFn) -> RequestTrace:
    return RequestTrace(
        prompt_id=draw(st.text(max_size=5)),
        category=draw(st.text(max_size=5)),
        prompt_ids=tuple(draw(st.lists(token, max_size=80))),
        output_ids=tuple(draw(st.lists(token, max_size=20))),
        finish_reason=draw(st.none() | st.just("stop")),
        steps=draw(st.none() | st.lists(steps(), max_size=4).map(tuple)),
    )


@given(st.lists(requests(), min_size=1, max_size=5))
def test_pack_samples_when_given_any_requests_then_everything_comes_back(traces: list[RequestTrace]) -> None:
    for trace, sample in zip(traces, read_back(pack_samples(evidence_of(*traces))), strict=True):
        assert sample["prompt"] == list(trace.prompt_ids)
        assert sample["output"] == list(trace.output_ids)
        place = len(trace.prompt_ids) + 1
        assert len(sample["steps"]) == len(trace.steps or ())
        for step, found in zip(trace.steps or (), sample["steps"], strict=True):
            place = step.position if step.position is not None else place
            drafts = list(step.draft_ids or ())
            assert found == (place, step.num_accepted, step.num_drafted, drafts, step.chosen_id)
            place += step.num_accepted + 1


def test_pack_samples_when_steps_give_the_output_then_it_is_not_stored_again() -> None:
    evidence = make_evidence()
    assert evidence.speculative is not None
    _, columns = unpack(pack_samples(evidence))
    assert columns["output"] == []
    assert set(columns["moved_to"]) == {None}
    for trace, sample in zip(evidence.speculative.requests, read_back(pack_samples(evidence)), strict=True):
        assert sample["output"] == list(trace.output_ids)


def test_pack_samples_when_packed_later_then_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pack_samples(make_evidence())
    monkeypatch.setattr(time, "time", lambda: 1e9)
    assert pack_samples(make_evidence()) == before


def test_pack_samples_when_a_prompt_is_long_then_keeps_its_end() -> None:
    request = make_request("r0", prompt_len=PROMPT_TAIL_RANGE[1] + 100)
    kept = read_back(pack_samples(evidence_of(request)))[0]["prompt"]
    assert tuple(kept) == request.prompt_ids[-PROMPT_TAIL_RANGE[1] :]


def test_pack_samples_when_there_are_no_requests_then_is_empty() -> None:
    assert pack_samples(Evidence()) == ""
    assert pack_samples(evidence_of()) == ""


def test_pack_samples_when_texts_are_hostile_then_writes_out_what_cannot_be_seen() -> None:
    texts = dict.fromkeys(range(0, 1000, 2), "\u202e\x00") | dict.fromkeys(range(1, 1000, 2), "w" * 5000)
    header, _ = unpack(pack_samples(make_evidence(token_texts=texts)))
    assert set(header["texts"]) == {"<U+202E><U+0000>", "w" * MAX_TEXT_LENGTH + "…"}


def test_pack_samples_when_a_text_is_not_known_then_shows_the_id() -> None:
    header, _ = unpack(pack_samples(make_evidence(token_texts={})))
    assert header["texts"] == [f"<{token}>" for token in header["token_ids"]]


@pytest.mark.parametrize(
    ("logprob", "expected"),
    [(-0.0104, 10), (0.0, 0), (0.5, 0), (-1e9, 65534), (-math.inf, 65534), (math.nan, None), (None, None)],
)
def test_pack_samples_when_given_a_logprob_then_keeps_it_to_a_thousandth(
    logprob: float | None, expected: int | None
) -> None:
    step = VerifyStep(num_drafted=1, num_accepted=0, rejected_logprob=logprob)
    _, columns = unpack(pack_samples(evidence_of(make_request(steps=(step,)))))
    assert columns["rejected_logprob"] == [expected]
    assert LOGPROB_STEP == 0.001


def test_pack_samples_when_a_request_diverges_then_keeps_the_targets_own_continuation() -> None:
    request = make_request("r0", accepted=(7,) * 12)
    alone = msgspec.structs.replace(without_steps(request), output_ids=(*request.output_ids[:5], *range(60)))
    part = Divergence(
        prompt_id="r0", category="math", index=5, target_id=0, speculative_id=request.output_ids[5]
    )
    evidence = evidence_of(request, divergences=(part,))
    both = msgspec.structs.replace(evidence, target_only=make_generation([alone], arm="target-only"))
    header, columns = unpack(pack_samples(both))
    kept = [header["token_ids"][place] for place in columns["alternative"] if place is not None]
    assert kept == list(range(ALTERNATIVE_LENGTH))
    found = header["divergences"][0]
    assert (found["sample"], found["index"], found["kind"]) == (0, 5, "untriaged")
    assert not found["alternative_ends"]


def test_pack_samples_when_a_sample_is_void_then_says_why() -> None:
    header, _ = unpack(pack_samples(make_evidence(), void={"r003": "repeats\nitself"}))
    assert header["void"] == {"3": "repeats⏎itself"}


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=30),
    room=st.integers(1, 400),
    first=st.sets(st.integers(0, 29)),
)
def test_choose_requests_when_not_all_fit_then_keeps_the_notable_and_says_no_more_than_fits(
    sizes: list[int], room: int, first: set[int]
) -> None:
    traces = [
        RequestTrace(prompt_id=str(index), category="c", prompt_ids=(), output_ids=(1,) * size)
        for index, size in enumerate(sizes)
    ]
    wanted = {index for index in first if index < len(sizes)}
    chosen = choose_requests(traces, first=frozenset(map(str, wanted)), max_tokens=room)
    assert list(chosen) == sorted(set(chosen))
    used = sum(sizes[index] for index in chosen)
    if sum(sizes) <= room:
        assert len(chosen) == len(sizes)
    else:
        assert used <= room or len(chosen) == 1
    if sum(sizes[index] for index in wanted) <= room:
        assert wanted <= set(chosen)
