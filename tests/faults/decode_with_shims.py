"""Decodes with one engine, healthy and under each shim in turn, and prints what each did as JSON.

`python decode_with_shims.py SPECIFICATION`, JSON with `target`, `draft`, `prompts` (a file), `num_prompts`,
`max_tokens`, `shims` (installed at the start: parameters by name) and `cases` (pairs of name and parameters).
It is a script because vLLM reads its environment at import.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
import time
from typing import Any

from dflash_doctor.engines.base import Conversation, EngineOptions, Sampling, Shim, TokenizedPrompt
from dflash_doctor.engines.vllm_offline import VllmOffline, build_engine
from dflash_doctor.workloads.prompts import load_prompts

PACKAGE = "dflash_doctor.faults.shims"


@dataclasses.dataclass(frozen=True)
class Pass:
    """What one pass over the prompts gave."""

    outputs: list[tuple[int, ...]]
    steps: list[list[tuple[tuple[int, ...], int]]]
    """Per request: draft ids and how many were accepted."""

    @property
    def acceptance_length(self) -> float:
        accepted = [count for request in self.steps for _, count in request]
        return 1 + sum(accepted) / len(accepted)


def decode(engine: Any, requests: list[TokenizedPrompt], max_tokens: int) -> Pass:
    generation = engine.generate(requests, Sampling(max_tokens=max_tokens), capture=True)
    assert generation.level == "token", generation.capture
    return Pass(
        outputs=[trace.output_ids for trace in generation.requests],
        steps=[
            [(step.draft_ids, step.num_accepted) for step in trace.steps or ()]
            for trace in generation.requests
        ],
    )


def compared(healthy: Pass, other: Pass) -> dict[str, Any]:
    """One pass, against the healthy one."""
    return {
        "acceptance_length": round(other.acceptance_length, 3),
        "num_equal_outputs": sum(a == b for a, b in zip(healthy.outputs, other.outputs, strict=True)),
        "same_steps": healthy.steps == other.steps,
        "num_output_tokens": sum(map(len, other.outputs)),
    }


def main(specification: str) -> None:
    """Decode and print one line for each case, the healthy pass first."""
    spec = json.loads(specification)
    options = EngineOptions(
        target=spec["target"],
        draft=spec["draft"],
        num_speculative_tokens=7,
        shims=tuple(
            Shim(install=f"{PACKAGE}.{name}:install", parameters=parameters)
            for name, parameters in spec["shims"].items()
        ),
    )
    prompts = load_prompts(spec["prompts"]).prompts
    count = spec["num_prompts"]
    chosen = prompts[:: len(prompts) // count][:count]
    with build_engine(options) as engine:
        assert isinstance(engine, VllmOffline)
        token_ids = engine.render([Conversation(messages=item.messages) for item in chosen], thinking="off")
        requests = [
            TokenizedPrompt(prompt_id=item.id, category=item.category, token_ids=ids)
            for item, ids in zip(chosen, token_ids, strict=True)
        ]
        healthy = decode(engine, requests, spec["max_tokens"])
        show("healthy", {}, with_shim=compared(healthy, healthy))
        [runner] = engine._llm.collective_rpc(lambda worker: worker.model_runner)
        for name, parameters in spec["cases"]:
            started = time.monotonic()
            try:
                uninstall = importlib.import_module(f"{PACKAGE}.{name}").install(runner, **parameters)
                with_shim = decode(engine, requests, spec["max_tokens"])
                uninstall()
                after = decode(engine, requests, spec["max_tokens"])
            except Exception as error:
                # An engine that has failed is of no use to the cases that follow.
                show(name, parameters, error=f"{type(error).__name__}: {error}")
                raise
            show(
                name,
                parameters,
                with_shim=compared(healthy, with_shim),
                after=compared(healthy, after),
                seconds=round(time.monotonic() - started, 2),
            )


def show(name: str, parameters: dict[str, Any], **result: Any) -> None:
    sys.stdout.write(f"\nRESULT {json.dumps({'name': name, 'parameters': parameters, **result})}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
