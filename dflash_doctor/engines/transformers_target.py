"""Loads the target as a Transformers model, with nothing left to chance."""

from __future__ import annotations

import os
from typing import Any

from dflash_doctor.engines.transformers_options import TransformersArguments
from dflash_doctor.errors import EngineError, UsageError

_SMALL_MODEL_PARAMETERS = 100_000_000
"""Below this, more CPU threads than one cost more than they bring, far more where cores are shared."""


def load_target(model: str, arguments: TransformersArguments) -> tuple[Any, tuple[str, ...]]:
    """The target in evaluation mode, and the tensors of its checkpoint that it has no place for.

    Raises:
        UsageError: there is no such checkpoint, or it has no weights.
        EngineError: a tensor is missing; Transformers would fill it with random numbers.
    """
    from transformers import AutoModelForCausalLM

    loading: dict[str, Any] = {"dtype": arguments.dtype, "trust_remote_code": arguments.trust_remote_code}
    if arguments.attn_implementation is not None:
        loading["attn_implementation"] = arguments.attn_implementation
    try:
        target, info = AutoModelForCausalLM.from_pretrained(model, output_loading_info=True, **loading)
    except OSError as error:
        raise UsageError(
            "the target model cannot be loaded",
            seen=f"{model}: {error}",
            remedy="name a complete checkpoint folder or an existing hub id",
        ) from error
    missing = sorted(info["missing_keys"])
    if missing:
        raise EngineError(
            "a tensor of the target is missing",
            seen=f"{model}: {', '.join(missing[:3])} ({len(missing)} in all)",
            remedy="name a complete checkpoint",
        )
    return target.eval(), tuple(sorted(info["unexpected_keys"]))


def find_device(name: str | None) -> Any:
    """The torch device asked for, else cuda where there is one, else cpu."""
    import torch

    try:
        return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise UsageError(
            "torch has no such device",
            seen=f"--engine-arg device={name}: {error}",
            remedy="give cpu, cuda or cuda:N",
        ) from error


def end_token_ids(target: Any) -> tuple[int, ...]:
    """Tokens that end a text, from the checkpoint's generation config; empty where it names none."""
    found = target.generation_config.eos_token_id
    if found is None:
        return ()
    return tuple(found) if isinstance(found, list | tuple) else (int(found),)


def choose_threads(target: Any) -> None:
    """One thread for a small model on a CPU, unless the user has set `OMP_NUM_THREADS`."""
    import torch

    num_parameters = sum(parameter.numel() for parameter in target.parameters())
    small = target.device.type == "cpu" and num_parameters < _SMALL_MODEL_PARAMETERS
    if small and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
