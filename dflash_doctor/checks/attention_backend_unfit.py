"""The attention backend cannot run this drafter, or only approximates it

## What it checks

The backend named for the drafter (else for the target) against what it can do: attention that is not
causal, the drafter's head size, sliding windows, the type of the KV cache, the device. The table holds what
the backends themselves declare in vLLM 0.32 and SGLang 0.5.23, and the combinations that public reports
name.

## Why it matters

A backend that does not fit is refused at start at best. Others ran with near-zero acceptance (FlashInfer on
Blackwell, vllm-project/vllm#48167), or replace non-causal windows by something close (SGLang's trtllm_mha,
sgl-project/sglang#35209).

## Example

    DF128 FLASHINFER has no kernel for the drafter's head size
      seen:     head_dim 96; FLASHINFER takes 64, 128, 256, 512

## What to do

Name a backend that fits, for the drafter alone: `speculative_config.attention_backend`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dflash_doctor.checks.base import Case, Outcome, settled
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding, Severity

_AUTO = ("auto", "bfloat16", "float16")


@dataclass(frozen=True)
class Backend:
    """What an attention backend can do."""

    head_sizes: Callable[[int], bool]
    sizes_in_words: str
    kv_dtypes: tuple[str, ...]
    non_causal: bool = True
    windows: bool = True


def _one_of(*sizes: int) -> tuple[Callable[[int], bool], str]:
    return lambda size: size in sizes, ", ".join(map(str, sizes))


BACKENDS: dict[tuple[str, str], Backend] = {
    ("vllm", "FLASH_ATTN"): Backend(
        lambda size: size % 8 == 0 and size <= 512,
        "multiples of 8 up to 256, on the newest kernels 512",
        (*_AUTO, "fp8", "fp8_e4m3"),
    ),
    ("vllm", "FLASHINFER"): Backend(
        *_one_of(64, 128, 256, 512),
        (*_AUTO, "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4", "nvfp4_4over6"),
    ),
    ("vllm", "TRITON_ATTN"): Backend(
        lambda size: size >= 32,
        "32 and more",
        (*_AUTO, "fp8", "fp8_e4m3", "fp8_e5m2", "int4_per_token_head", "int8_per_token_head",
         "fp8_per_token_head"),
    ),
    ("vllm", "FLEX_ATTENTION"): Backend(lambda size: True, "any", _AUTO),
    ("vllm", "CPU_ATTN"): Backend(
        *_one_of(32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512),
        ("auto", "fp8", "fp8_e4m3", "fp8_e5m2"),
    ),
    ("sglang", "flashinfer"): Backend(*_one_of(64, 128, 256), (*_AUTO, "fp8_e4m3", "fp8_e5m2")),
    ("sglang", "fa3"): Backend(lambda size: size <= 256, "up to 256", (*_AUTO, "fp8_e4m3")),
    ("sglang", "fa4"): Backend(lambda size: size <= 256, "up to 256", _AUTO),
    ("sglang", "triton"): Backend(lambda size: True, "any", (*_AUTO, "fp8_e4m3", "fp8_e5m2")),
}  # fmt: skip
_REFUSED = {
    ("sglang", "torch_native"): "SGLang takes flashinfer for DFlash drafters instead",
}


def judge(case: Case) -> Outcome:
    """Look the combination up."""
    view = pair_view(case)
    if isinstance(view, Outcome):
        return view
    name = _named(view)
    findings = list(_by_report(view, name))
    if name is None:
        return settled(findings, compared=["no backend is named: the engine chooses one that fits"])
    backend = BACKENDS.get((view.engine, name))
    if backend is None:
        refused = _REFUSED.get((view.engine, name))
        if refused is not None:
            findings.append(_finding(view, "warning", f"{name} does not run DFlash drafters", refused))
        return settled(findings, compared=[], unchecked=[] if refused else [f"what {name} can do"])
    findings += _misfits(view, name, backend)
    return settled(findings, compared=[f"{name} takes the drafter's heads, windows and KV cache"])


def _named(view: PairView) -> str | None:
    for value in (
        view.speculative("attention_backend"),
        view.argument("speculative_draft_attention_backend", "attention_backend"),
        view.contract.variables.get("VLLM_ATTENTION_BACKEND"),
    ):
        if isinstance(value, str) and value:
            return value.upper() if view.engine == "vllm" else value.lower()
    return None


def _kv_dtype(view: PairView) -> str | None:
    value = view.speculative("kv_cache_dtype") or view.argument(
        "speculative_draft_kv_cache_dtype", "kv_cache_dtype"
    )
    return str(value) if value is not None else None


def _non_causal(view: PairView) -> bool:
    causal = view.served.causal if view.served is not None else None
    return causal is None or not all(causal)


def _misfits(view: PairView, name: str, backend: Backend) -> Iterator[Finding]:
    size = view.config.head_dim
    if size is not None and not backend.head_sizes(size):
        yield _finding(
            view,
            "error",
            f"{name} has no kernel for the drafter's head size",
            f"head_dim {size}; {name} takes {backend.sizes_in_words}",
        )
    dtype = _kv_dtype(view)
    if dtype is not None and dtype not in backend.kv_dtypes:
        yield _finding(
            view,
            "error",
            f"{name} does not read this KV cache",
            f"kv_cache_dtype {dtype}; {name} reads {', '.join(backend.kv_dtypes)}",
        )


def _by_report(view: PairView, name: str | None) -> Iterator[Finding]:
    """Combinations that public reports name and no declaration of a backend tells."""
    windows = [item for item in (view.served.windows if view.served else None) or () if item is not None]
    if view.engine == "sglang" and name == "trtllm_mha" and _non_causal(view):
        yield _finding(
            view,
            "warning",
            "trtllm_mha only approximates windows that are not causal",
            f"windows of {windows[0]:,}" if windows else "layers that are not causal",
            causes=("sliding-window-ignored", "attention-backend-incompatible"),
        )
    dtype = _kv_dtype(view)
    if dtype is not None and dtype not in _AUTO and name is None and _non_causal(view):
        yield _finding(
            view,
            "warning",
            "not every backend combines a quantised KV cache with a drafter that is not causal",
            f"kv_cache_dtype {dtype}, and no backend is named",
        )
    capability = view.contract.features.get("compute_capability")
    if view.engine == "vllm" and name == "FLASHINFER" and capability == 10.0 and _non_causal(view):
        yield _finding(
            view,
            "warning",
            "FlashInfer under a CUDA graph gave near-zero acceptance on this GPU generation",
            "FLASHINFER on SM100 with a drafter that is not causal",
        )
    target = view.target_config
    if windows and target is not None and target.kv_lora_rank is not None and name is None:
        yield _finding(
            view,
            "info",
            "the target has latent attention, the drafter a window: its schedule may be the target's",
            f"kv_lora_rank {target.kv_lora_rank}; drafter window {windows[0]:,}",
        )


def _finding(
    view: PairView,
    severity: Severity,
    message: str,
    observed: str,
    causes: tuple[str, ...] = ("attention-backend-incompatible",),
) -> Finding:
    vllm = view.engine == "vllm"
    flag = (
        "speculative_config.attention_backend=FLASH_ATTN"
        if vllm
        else "speculative_draft_attention_backend=triton"
    )
    return Finding(
        code="DF128",
        severity=severity,
        message=message,
        observed=observed,
        expected="a backend that runs the drafter exactly",
        remedy=f"name a backend for the drafter: {flag}",
        edit=f"--engine-arg {flag}",
        where=view.in_draft("head_dim"),
        causes=causes,
    )
