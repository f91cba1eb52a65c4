"""What the transformers engine takes, checked before torch is imported."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass, fields
from typing import Any

from dflash_doctor.engines.base import EngineOptions
from dflash_doctor.engines.model_folder import require_model_folder
from dflash_doctor.engines.transformers_drafter import require_drafter_config
from dflash_doctor.errors import EngineMissingError, UsageError

DTYPES = ("auto", "float32", "bfloat16", "float16")
INSTALL = "pip install 'dflash-doctor[reference]'"


@dataclass(frozen=True, kw_only=True)
class TransformersArguments:
    """The engine arguments (`--engine-arg KEY=VALUE`) of this engine."""

    dtype: str = "auto"
    """Of target and drafter; `auto` is the target checkpoint's own."""
    device: str | None = None
    """A torch device; `None` is cuda where there is one, else cpu."""
    attn_implementation: str | None = None
    """Of the target, as Transformers names it; `None` is its own choice."""
    trust_remote_code: bool = False


def check_options(options: EngineOptions) -> TransformersArguments:
    """The engine arguments, once everything that can be known without torch is known to fit.

    Raises:
        EngineMissingError: torch or Transformers is not installed.
        UsageError: a model folder, the draft config, the method or an engine argument does not fit.
    """
    _require_installed()
    arguments = read_arguments(options.engine_args)
    require_model_folder(options.target, role="target")
    if options.arm == "speculative":
        if options.method != "dflash":
            raise UsageError(
                "the transformers engine speculates with DFlash only",
                seen=f"method {options.method}",
                remedy="use --method dflash or another engine",
            )
        if options.draft is None:
            raise UsageError("no drafter was named", seen="draft: none", remedy="give --draft")
        require_model_folder(options.draft, role="draft")
        require_drafter_config(options.draft)
    return arguments


def read_arguments(given: dict[str, Any]) -> TransformersArguments:
    """Engine arguments with their defaults.

    Raises:
        UsageError: an unknown argument (the message lists the valid ones), or a value that does not fit.
    """
    valid = tuple(field.name for field in fields(TransformersArguments))
    for name in given:
        if name not in valid:
            raise UsageError(
                "the transformers engine has no such argument",
                seen=f"--engine-arg {name}=...",
                remedy="valid: " + ", ".join(valid),
            )
    arguments = TransformersArguments(**given)
    if arguments.dtype not in DTYPES:
        raise _misfit("dtype", arguments.dtype, "one of " + ", ".join(DTYPES))
    if not isinstance(arguments.trust_remote_code, bool):
        raise _misfit("trust_remote_code", arguments.trust_remote_code, "true or false")
    for name in ("device", "attn_implementation"):
        value = getattr(arguments, name)
        if value is not None and not isinstance(value, str):
            raise _misfit(name, value, "a name")
    return arguments


def _misfit(name: str, value: object, wanted: str) -> UsageError:
    return UsageError(
        f"the engine argument {name} has a value that does not fit",
        seen=f"--engine-arg {name}={value}",
        remedy=f"give {wanted}",
    )


def _require_installed() -> None:
    for package in ("torch", "transformers"):
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise EngineMissingError(
                f"{package} is not installed",
                seen="the transformers engine needs torch and transformers",
                remedy=INSTALL,
            ) from None
