"""Reads `--engine-arg KEY=VALUE`."""

from __future__ import annotations

import json
from typing import Any

from dflash_doctor.errors import UsageError


def parse_engine_args(items: tuple[str, ...]) -> dict[str, Any]:
    """`("dtype=float32", "max_model_len=1024")` as a mapping; values are JSON where they can be.

    Raises:
        UsageError: an item without `=` or without a key, or a `speculative_config` that is no object.
    """
    parsed: dict[str, Any] = {}
    for item in items:
        key, separator, value = item.partition("=")
        key = key.strip().lstrip("-").replace("-", "_")
        if not separator or not key:
            raise UsageError(
                "an engine argument is not KEY=VALUE",
                seen=repr(item),
                remedy="write --engine-arg max_model_len=1024",
            )
        try:
            parsed[key] = json.loads(value)
        except json.JSONDecodeError:
            parsed[key] = {"true": True, "false": False, "none": None}.get(value.lower(), value)
    return _flat(parsed)


def _flat(parsed: dict[str, Any]) -> dict[str, Any]:
    """`speculative_config={...}`, as on vLLM's command line, means its entries one by one."""
    if "speculative_config" not in parsed:
        return parsed
    nested = parsed.pop("speculative_config")
    if not isinstance(nested, dict):
        raise UsageError(
            "speculative_config is no JSON object",
            seen=repr(nested),
            remedy='write --engine-arg \'speculative_config={"method": "dflash"}\', '
            "or --engine-arg speculative_config.method=dflash",
        )
    return {f"speculative_config.{name}": value for name, value in nested.items()} | parsed
