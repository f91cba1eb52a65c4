"""Fetches the small files of a hub id, and the headers of its weight files; never the weights.

Only for names that are hub ids, and not where the user has switched the hub off (`HF_HUB_OFFLINE`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dflash_doctor.checkpoints.files import UnfitFileError
from dflash_doctor.checkpoints.safetensors_file import Header, Placed
from dflash_doctor.contract.pair import Tensor

_SMALL = ("*.json", "*.jinja", "*.model", "*.txt", "README.md", "mask_embedding.pt")
_BIG = ("*consolidated*", "original/*", "*.onnx*")
_SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_OFF = ("", "0", "false", "no", "off")
_TIMEOUT_S = 10.0


def hub_is_allowed(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the hub may be asked: no switch says that this machine is offline."""
    values = os.environ if environ is None else environ
    return all(values.get(name, "").strip().lower() in _OFF for name in _SWITCHES)


def fetch_small_files(hub_id: str, revision: str | None) -> Path:
    """The snapshot folder with configs, tokenizer and template; in the hub's own cache.

    Raises:
        UnfitFileError: there is no such id or revision, no access, or no network; says which.
    """
    # Read when the client is imported: no usage reports, no progress bars between our own lines.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        from huggingface_hub import snapshot_download

        return Path(
            snapshot_download(
                hub_id,
                revision=revision,
                allow_patterns=list(_SMALL),
                ignore_patterns=list(_BIG),
                etag_timeout=_TIMEOUT_S,
            )
        )
    except Exception as error:
        # The hub's client has a dozen error classes, and those of its HTTP library besides.
        raise UnfitFileError(_reason(error)) from error


def fetch_headers(hub_id: str, revision: str | None) -> list[Header]:
    """The headers of the safetensors files of a hub id, by requests for the first bytes of each.

    Raises:
        UnfitFileError: it has none, or they cannot be fetched.
    """
    try:
        from huggingface_hub import get_safetensors_metadata

        found = get_safetensors_metadata(hub_id, revision=revision)
        return [_header(name, file) for name, file in sorted(found.files_metadata.items())]
    except Exception as error:
        raise UnfitFileError(_reason(error)) from error


def _header(name: str, file: Any) -> Header:
    placed = tuple(
        Placed(Tensor(tensor, str(info.dtype), tuple(info.shape)), *info.data_offsets)
        for tensor, info in file.tensors.items()
    )
    size = max((item.end for item in placed), default=0)
    raw = repr([(item.tensor.name, item.tensor.dtype, item.tensor.shape) for item in placed]).encode()
    return Header(Path(name), placed, raw, size)


def _reason(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first[:200]}"
