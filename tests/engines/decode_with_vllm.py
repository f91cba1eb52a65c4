"""Decodes a few prompts of a pair with our vllm engine and prints the generation and the facts as JSON.

`python decode_with_vllm.py v1|v2|hookless PAIR NUM_PROMPTS MAX_TOKENS [DTYPE]`. With `v2` it runs vLLM's V2
model runner without a GPU: Triton interprets its kernels (tens of tokens a second). `hookless` is V1 with a
runner that has no rejection sampler to stand in for, as a future version may. It is a script because Triton
must be set up before vLLM is imported.
"""

from __future__ import annotations

import os
import sys
import types
from typing import Any


def interpret_triton() -> None:
    """Point Triton at its interpreter and give it a driver that says `cpu`."""
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"
    import torch
    import triton.backends
    from triton.runtime.driver import driver

    active = types.SimpleNamespace(
        is_active=lambda: True,
        get_current_target=lambda: types.SimpleNamespace(backend="cpu", arch="cpu", warp_size=1),
        get_current_device=lambda: 0,
        get_current_stream=lambda _device=None: 0,
        get_device_interface=lambda: torch.cpu,
        get_active_torch_device=lambda: torch.device("cpu"),
        utils=types.SimpleNamespace(
            get_device_properties=lambda _device: {"multiprocessor_count": 1, "max_shared_mem": 1 << 20}
        ),
    )
    # vLLM looks for an installed backend whose driver is active; Triton itself asks for the active driver.
    triton.backends.backends["cpu"] = types.SimpleNamespace(driver=active, compiler=None)
    driver.set_active(active)
    _take_masks_as_bool()


def _take_masks_as_bool() -> None:
    """Triton's interpreter widens a scalar mask to int8, then refuses it; DFlash2's kernels have one."""
    from triton.runtime.interpreter import InterpreterBuilder

    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store

    def as_bool(mask: Any) -> Any:
        mask.data = mask.data.astype(bool)
        return mask

    InterpreterBuilder.create_masked_load = lambda self, ptrs, mask, *rest: load(
        self, ptrs, as_bool(mask), *rest
    )
    InterpreterBuilder.create_masked_store = lambda self, ptrs, value, mask, *rest: store(
        self, ptrs, value, as_bool(mask), *rest
    )


def main(runner: str, pair: str, num_prompts: str, max_tokens: str, dtype: str = "auto") -> None:
    """Decode and print."""
    if runner == "v2":
        interpret_triton()
    import msgspec

    from dflash_doctor.engines.base import Conversation, EngineOptions, Sampling, TokenizedPrompt
    from dflash_doctor.engines.vllm_offline import build_engine
    from dflash_doctor.workloads.prompts import load_prompts

    prompts = load_prompts(f"{pair}/prompts.jsonl").prompts
    chosen = prompts[:: len(prompts) // int(num_prompts)][: int(num_prompts)]
    if runner == "hookless":
        from dflash_doctor.engines import vllm_worker

        vllm_worker.DflashWorkerExtension.dflash_capture_start = lambda _self, _folder: {
            "ok": False,
            "why": "this worker has no rejection sampler",
        }
    options = EngineOptions(
        target=f"{pair}/target",
        draft=f"{pair}/draft",
        num_speculative_tokens=7,
        engine_args={} if dtype == "auto" else {"dtype": dtype},
    )
    with build_engine(options) as engine:
        token_ids = engine.render([Conversation(messages=item.messages) for item in chosen], thinking="off")
        requests = [
            TokenizedPrompt(prompt_id=item.id, category=item.category, token_ids=ids)
            for item, ids in zip(chosen, token_ids, strict=True)
        ]
        generation = engine.generate(requests, Sampling(max_tokens=int(max_tokens)), capture=True)
        facts = engine.describe()
    result = msgspec.json.encode({"generation": generation, "facts": facts}).decode()
    sys.stdout.write(f"\nRESULT {result}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
