"""The capture sees in a batch what a plain loop over requests sees, in both runner layouts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the capture runs inside a torch engine")

from dflash_doctor.engines import vllm_capture  # noqa: E402
from dflash_doctor.engines.capture_log import read_steps  # noqa: E402
from dflash_doctor.engines.vllm_capture import DraftCapture  # noqa: E402

VOCABULARY = 50
SCENARIOS = [
    pytest.param([3, 3, 3], [0, 2, 3], id="uniform"),
    pytest.param([0, 4, 1, 0, 2], [0, 4, 0, 0, 1], id="prefill-rows-and-ragged-drafts"),
    pytest.param([7] * 130, [i % 8 for i in range(130)], id="more-rows-than-a-chunk"),
]


class Batch:
    """A made-up batch: k drafts and the accepted count for each request."""

    def __init__(self, num_drafted: list[int], num_accepted: list[int], seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.num_drafted, self.num_accepted = num_drafted, num_accepted
        self.request_ids = [f"{index}-x" for index in range(len(num_drafted))]
        self.logits = torch.randn(sum(num_drafted) + len(num_drafted), VOCABULARY, generator=generator)
        self.drafts = [
            torch.randint(0, VOCABULARY, (count,), generator=generator).tolist() for count in num_drafted
        ]
        self.first_row = [sum(num_drafted[:i]) + i for i in range(len(num_drafted))]
        self.emitted = [
            [*drafts[:accepted], int(self.logits[row + accepted].argmax())]
            for drafts, accepted, row in zip(self.drafts, num_accepted, self.first_row, strict=True)
        ]
        self.positions = [100 + 10 * index for index in range(len(num_drafted))]

    def padded(self) -> Any:
        width = max(self.num_drafted) + 1
        return torch.tensor([row + [-1] * (width - len(row)) for row in self.emitted])

    def expected(self) -> list[tuple[str, Any]]:
        found = []
        for index, count in enumerate(self.num_drafted):
            if count == 0:
                continue
            accepted = self.num_accepted[index]
            row = self.logits[self.first_row[index] + accepted].double()
            logprobs = row.log_softmax(-1)
            chosen = self.emitted[index][-1]
            rejected = self.drafts[index][accepted] if accepted < count else None
            found.append(
                (
                    self.request_ids[index],
                    SimpleNamespace(
                        draft_ids=tuple(self.drafts[index]),
                        emitted_ids=tuple(self.emitted[index]),
                        position=self.positions[index] + 1,
                        chosen_logprob=float(logprobs[chosen]),
                        chosen_rank=1 + int((row > row[chosen]).sum()),
                        rejected_logprob=None if rejected is None else float(logprobs[rejected]),
                        rejected_rank=None if rejected is None else 1 + int((row > row[rejected]).sum()),
                    ),
                )
            )
        return found


def call_v1(capture: DraftCapture, batch: Batch) -> None:
    flat = [token for drafts in batch.drafts for token in drafts]
    ends = torch.tensor(batch.num_drafted).cumsum(0).int()
    metadata = SimpleNamespace(
        num_draft_tokens=batch.num_drafted,
        cu_num_draft_tokens=ends,
        draft_token_ids=torch.tensor(flat, dtype=torch.int32),
        logits_indices=torch.arange(batch.logits.shape[0]),
    )
    capture(metadata, None, batch.logits, None)


def call_v2(capture: DraftCapture, batch: Batch) -> None:
    rows = [token for drafts in batch.drafts for token in [49, *drafts]]
    bounds = torch.tensor([0, *batch.first_row[1:], batch.logits.shape[0]], dtype=torch.int32)
    positions = torch.zeros(batch.logits.shape[0], dtype=torch.int64)
    positions[torch.tensor(batch.first_row)] = torch.tensor(batch.positions)
    capture(
        batch.logits,
        SimpleNamespace(
            req_ids=batch.request_ids,
            cu_num_logits=bounds,
            logits_indices=torch.arange(batch.logits.shape[0]),
            input_ids=torch.tensor(rows, dtype=torch.int32),
            positions=positions,
        ),
        None,
    )


def runner_v1(batch: Batch) -> Any:
    positions = torch.zeros(batch.logits.shape[0], dtype=torch.int64)
    positions[torch.tensor(batch.first_row)] = torch.tensor(batch.positions)
    return SimpleNamespace(
        input_batch=SimpleNamespace(num_reqs=len(batch.request_ids), req_ids=batch.request_ids),
        positions=positions,
    )


def output_of(batch: Batch, *, counted: bool) -> Any:
    output = SimpleNamespace(sampled_token_ids=batch.padded())
    if counted:
        output.num_sampled = torch.tensor([len(row) for row in batch.emitted])
    return output


@pytest.mark.parametrize(("num_drafted", "num_accepted"), SCENARIOS)
@pytest.mark.parametrize("generation", ["v1", "v2"])
@pytest.mark.parametrize("elements_per_chunk", [1, 64 * VOCABULARY, 1 << 24])
def test_capture_when_a_batch_is_verified_then_equals_a_loop_over_requests(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    elements_per_chunk: int,
    generation: str,
    num_drafted: list[int],
    num_accepted: list[int],
) -> None:
    monkeypatch.setattr(vllm_capture, "_ELEMENTS_PER_CHUNK", elements_per_chunk)
    batch = Batch(num_drafted, num_accepted)
    path = tmp_path / "steps.1.bin"
    output = output_of(batch, counted=generation == "v2")
    runner = runner_v1(batch) if generation == "v1" else SimpleNamespace()
    capture = DraftCapture(lambda *_: output, runner, path)
    # Enough for more than two blocks, so that early steps are written while later ones wait.
    num_steps = 300 if elements_per_chunk > 1 else 3
    for _ in range(num_steps):
        (call_v1 if generation == "v1" else call_v2)(capture, batch)
    capture.close()
    assert capture.last_error is None
    assert capture.num_steps == num_steps
    read = list(read_steps(path, started_s=0.0))
    expected = batch.expected()
    assert len(read) == num_steps * len(expected)
    for (request_id, step), (wanted_id, wanted) in zip(read[-len(expected) :], expected, strict=True):
        assert request_id == wanted_id
        for name in ("draft_ids", "emitted_ids", "position", "chosen_rank", "rejected_rank"):
            assert getattr(step, name) == getattr(wanted, name), name
        assert step.chosen_logprob == pytest.approx(wanted.chosen_logprob, abs=2e-5)
        assert step.rejected_logprob == pytest.approx(wanted.rejected_logprob, abs=2e-5)
    decided = [batch.logits[row + n] for row, n in zip(batch.first_row, num_accepted, strict=True)]
    assert capture.max_logit == pytest.approx(max(float(row.max()) for row in decided))


def test_capture_when_recording_fails_then_serving_goes_on_and_the_error_is_counted(tmp_path: Path) -> None:
    calls = []
    capture = DraftCapture(lambda *args: calls.append(args) or "output", SimpleNamespace(), tmp_path / "s")
    assert capture("nonsense", SimpleNamespace()) == "output"
    assert capture("nonsense", SimpleNamespace()) == "output"
    assert len(calls) == 2
    assert capture.num_errors == 1, "it stops after the first failure"
    assert capture.last_error is not None
    assert "AttributeError" in capture.last_error


def test_capture_when_the_batch_is_a_warm_up_then_records_nothing(tmp_path: Path) -> None:
    batch = Batch([3, 3], [1, 1])
    runner = runner_v1(batch)
    runner.input_batch.num_reqs = 0
    capture = DraftCapture(lambda *_: output_of(batch, counted=False), runner, tmp_path / "s")
    call_v1(capture, batch)
    capture.close()
    assert (capture.num_steps, capture.num_errors) == (0, 0)


def test_capture_when_asked_for_something_else_then_passes_it_on(tmp_path: Path) -> None:
    inner = SimpleNamespace(threshold=0.5)
    assert DraftCapture(inner, SimpleNamespace(), tmp_path / "s").threshold == 0.5
