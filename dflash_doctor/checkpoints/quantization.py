"""Reads how a checkpoint is quantised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dflash_doctor.contract.pair import Quantization

_ROTATION = re.compile(r"hadamard|quarot|spin_?quant|rotation|rotate", re.IGNORECASE)
_NOT_ROTATED: tuple[Any, ...] = (None, False, "none", "None", "", [], {})
_IGNORE_KEYS = ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers")
_MAX_DEPTH = 12


def read_quantization(raw: Mapping[str, Any], inner: tuple[str, ...]) -> Quantization | None:
    """How the weights are stored; `None` where the config names no quantisation.

    Args:
        raw: the config.
        inner: keys of nested configs to look into, `""` for the top level.
    """
    places = [("", raw)] + [(f"{key}.", raw[key]) for key in inner if key and isinstance(raw.get(key), dict)]
    for prefix, place in places:
        for key in ("quantization_config", "compression_config"):
            found = place.get(key)
            if isinstance(found, dict):
                return _parse(found, prefix + key)
    return None


def _parse(found: Mapping[str, Any], field: str) -> Quantization:
    inner = found.get("quantization")
    detail = inner if isinstance(inner, dict) else found
    method = _text(found.get("quant_method") or detail.get("quant_algo") or "unknown")
    ignored: list[Any] = next((detail[key] for key in _IGNORE_KEYS if isinstance(detail.get(key), list)), [])
    names = tuple(item for item in ignored if isinstance(item, str))
    return Quantization(
        method=method or "unknown",
        scheme=_text(detail.get("quant_algo") or detail.get("format") or detail.get("bits") or ""),
        ignored_modules=names,
        covers_head=_covers_head(found, detail, names),
        rotation=_rotation(found),
        field=field,
    )


def _covers_head(found: Mapping[str, Any], detail: Mapping[str, Any], ignored: tuple[str, ...]) -> bool:
    """Whether the output head is quantised: said outright, or targeted by name and not excluded."""
    if any("lm_head" in name for name in ignored):
        return False
    if found.get("lm_head") is True or detail.get("quantize_lm_head") is True:
        return True
    groups = detail.get("config_groups")
    targets = [
        target
        for group in (groups.values() if isinstance(groups, dict) else ())
        if isinstance(group, dict)
        for target in _list(group.get("targets"))
    ]
    return any("lm_head" in str(target) for target in targets)


def _list(value: Any) -> list[Any]:
    """A list as it is, one text as a list of it, anything else as none."""
    if isinstance(value, str):
        return [value]
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    """A short text; objects and lists say nothing here."""
    return "" if isinstance(value, dict | list) else str(value)[:80]


def _rotation(value: Any, depth: int = 0) -> str | None:
    """The first key or text that speaks of a rotation, as `key=value`."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, dict):
        for key, item in value.items():
            if _ROTATION.search(str(key)) and item not in _NOT_ROTATED:
                return f"{key}={str(item)[:60]}"
            found = _rotation(item, depth + 1)
            if found is not None:
                return found
    elif isinstance(value, list):
        for item in value:
            found = _rotation(item, depth + 1)
            if found is not None:
                return found
    elif isinstance(value, str) and _ROTATION.search(value):
        return value[:60]
    return None
