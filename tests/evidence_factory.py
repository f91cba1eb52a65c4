"""Small evidence for tests: consistent by construction, so that a test can break one thing at a time."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

import msgspec
from doctor_process import PAIR

from dflash_doctor.contract.environment import (
    EnvironmentFacts,
    InstalledPackage,
    LockComparison,
    PinFacts,
    RegistryFacts,
)
from dflash_doctor.contract.evidence import ContractEvidence
from dflash_doctor.evidence import (
    CaptureReport,
    EngineCounters,
    EngineFacts,
    Evidence,
    Generation,
    NumericNoise,
    RequestTiming,
    RequestTrace,
    VerifyStep,
)
from dflash_doctor.probes.contract import collect_contract
from dflash_doctor.settings import Settings

VOCABULARY = 1000


def make_step(accepted: int, drafted: int = 7, **changes: Any) -> VerifyStep:
    """One verify step by its counts."""
    return VerifyStep(num_drafted=drafted, num_accepted=accepted, **changes)


def make_request(
    prompt_id: str = "p0",
    category: str = "math",
    accepted: Sequence[int] = (3, 0, 7),
    k: int = 7,
    prompt_len: int = 10,
    with_ids: bool = True,
    seed: int = 0,
    **changes: Any,
) -> RequestTrace:
    """A request whose steps accepted these counts; ids, positions, output and counters agree."""
    generator = random.Random(f"{seed}/{prompt_id}")

    def token() -> int:
        return generator.randrange(10, VOCABULARY)

    prompt_ids = tuple(token() for _ in range(prompt_len))
    output = [token()]
    steps = []
    for count in accepted:
        drafts = tuple(token() for _ in range(k))
        emitted = (*drafts[:count], token())
        rejected = count < k
        steps.append(
            make_step(
                count,
                k,
                position=prompt_len + len(output),
                draft_ids=drafts if with_ids else None,
                emitted_ids=emitted if with_ids else None,
                rejected_logprob=-2.5 if rejected and with_ids else None,
                rejected_rank=2 if rejected and with_ids else None,
                chosen_logprob=-0.1 if with_ids else None,
                chosen_rank=1 if with_ids else None,
                time_s=0.01 * (len(steps) + 1),
            )
        )
        output += emitted
    fields: dict[str, Any] = {
        "prompt_id": prompt_id,
        "category": category,
        "prompt_ids": prompt_ids,
        "output_ids": tuple(output),
        "text": " ".join(map(str, output)),
        "finish_reason": "stop",
        "steps": tuple(steps),
        "counters": counters_of(accepted, k),
        "timing": RequestTiming(ttft_s=0.01, decode_s=0.2, e2e_latency_s=0.21, queue_s=0.0),
    }
    return RequestTrace(**(fields | changes))


def counters_of(accepted: Sequence[int], k: int) -> EngineCounters:
    """What an honest engine reports for these steps."""
    total = sum(accepted)
    return EngineCounters(
        num_drafts=len(accepted),
        num_draft_tokens=k * len(accepted),
        num_accepted_draft_tokens=total,
        num_spec_tokens=k,
        mean_acceptance_length=1 + total / len(accepted) if accepted else 1.0,
        draft_acceptance_rate=total / (k * len(accepted)) if accepted else 0.0,
        acceptance_histogram=tuple(list(accepted).count(count) for count in range(k + 1)),
        per_step_accepted=tuple(accepted),
        per_step_drafted=(k,) * len(accepted),
    )


def make_generation(requests: Sequence[RequestTrace], arm: str = "speculative", **changes: Any) -> Generation:
    """A pass over these requests; a speculative one is captured at level token."""
    speculative = arm == "speculative"
    fields: dict[str, Any] = {
        "arm": arm,
        "requests": tuple(requests),
        "captured": speculative,
        "capture": CaptureReport(level="token", num_steps=10, max_logit=20.0) if speculative else None,
        "duration_s": 1.0,
    }
    return Generation(**(fields | changes))


def without_steps(trace: RequestTrace) -> RequestTrace:
    """The same text, decoded without drafts."""
    return RequestTrace(
        prompt_id=trace.prompt_id,
        category=trace.category,
        prompt_ids=trace.prompt_ids,
        output_ids=trace.output_ids,
        text=trace.text,
        finish_reason=trace.finish_reason,
        timing=trace.timing,
    )


@functools.cache
def healthy_contract() -> ContractEvidence:
    """What the bundled pair's files say; nothing of this machine."""
    settings = Settings(target=str(PAIR / "target"), draft=str(PAIR / "draft"))
    contract = collect_contract(settings, {}, environ={})
    return msgspec.structs.replace(contract, environment=healthy_environment())


def healthy_environment(**changes: Any) -> EnvironmentFacts:
    """Releases that fit each other, pinned and as locked."""
    versions = {"vllm": "0.32.0", "torch": "2.13.0", "transformers": "5.19.0"}
    registry = RegistryFacts(
        engine="vllm",
        version="0.32.0",
        methods=("ngram", "eagle3", "mtp", "dflash", "dspark"),
        draft_architectures=("DFlashDraftModel", "DFlash2DraftModel", "Eagle3LlamaForCausalLM"),
        architectures=(
            "LlamaForCausalLM", "DFlashDraftModel", "DFlash2DraftModel", "Eagle3LlamaForCausalLM",
        ),
    )  # fmt: skip
    fields: dict[str, Any] = {
        "packages": tuple(InstalledPackage(name=name, version=versions[name]) for name in versions),
        "registries": (registry,),
        "ranges_checked": 4,
        "pins": PinFacts(files=("requirements.txt",), pinned=tuple(versions)),
        "lock": LockComparison(file="lock.json"),
        "known_bad_asked": 12,
    }
    return EnvironmentFacts(**(fields | changes))


def make_evidence(
    num_requests: int = 8,
    categories: Sequence[str] = ("math", "code"),
    seed: int = 0,
    k: int = 7,
    steps_per_request: int = 20,
    accept: float = 0.7,
    **changes: Any,
) -> Evidence:
    """A healthy run: geometric acceptance, target-only text the same, no noise, nothing missing."""
    generator = random.Random(seed)

    def accepted() -> int:
        count = 0
        while count < k and generator.random() < accept:
            count += 1
        return count

    requests = [
        make_request(
            f"r{index:03d}",
            categories[index % len(categories)],
            accepted=[accepted() for _ in range(steps_per_request)],
            k=k,
            seed=seed,
        )
        for index in range(num_requests)
    ]
    fields: dict[str, Any] = {
        "contract": healthy_contract(),
        "facts": EngineFacts(
            name="vllm",
            version="0.32.0",
            dtype="bfloat16",
            method="dflash",
            num_spec_tokens=k,
            block_size=k + 1,
            mask_token_id=3,
        ),
        "speculative": make_generation(requests),
        "speculative_timing": make_generation(requests, captured=False, capture=None, duration_s=0.5),
        "target_only": make_generation([without_steps(item) for item in requests], arm="target-only"),
        "noise": NumericNoise(
            num_positions=100,
            max_logprob_gap_change=0.0,
            num_text_differences=0,
            num_requests=8,
            rounding_step=0.125,
        ),
        "divergences": (),
        "token_texts": {token: f"t{token}" for token in range(VOCABULARY)},
    }
    return Evidence(**(fields | changes))
