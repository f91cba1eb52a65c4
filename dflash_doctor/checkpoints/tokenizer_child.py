"""Runs tokenizers in a process of their own: the rules in a file may grow a text without end, or loop.

`ask` starts the child, with limits on memory and time; `main` is the child. Requests and answers are JSON.
"""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dflash_doctor.checkpoints.files import UnfitFileError, read_bytes, shown

_MAX_FILE_BYTES = 256 * 1024 * 1024
_MAX_MEMORY = 3 * 1024**3
"""A quarter of a million tokens take half a gigabyte; two of them, and the search, fit."""
_TIME_LIMIT_S = 60.0
_START = (
    "import sys; sys.path.insert(0, sys.argv[1])\n"
    "from dflash_doctor.checkpoints.tokenizer_child import main; main()"
)


class TokenizerFailedError(Exception):
    """The child gave no answer; the text says why."""


def compare_on_text(target: Path, draft: Path, *, specials: Sequence[str], max_examples: int) -> Any:
    """The number of texts tried and the smallest that differs, as `find_difference` gives them.

    Raises:
        TokenizerFailedError: a file cannot be loaded, or its rules take too much time or memory.
    """
    return ask({"files": [str(target), str(draft)], "specials": list(specials), "examples": max_examples})


def encode(file: Path, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of each text, without special tokens added.

    Raises:
        TokenizerFailedError: as `compare_on_text`.
    """
    answer: list[list[int]] = ask({"files": [str(file)], "texts": list(texts)})
    return answer


def ask(request: dict[str, Any], *, time_limit_s: float = _TIME_LIMIT_S) -> Any:
    """The child's answer to a request.

    Raises:
        TokenizerFailedError: it said why it has none, or it had to be ended.
    """
    root = Path(__file__).resolve().parent.parent.parent
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _START, str(root)],
            input=json.dumps(request).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=time_limit_s,
        )
    except subprocess.TimeoutExpired as error:
        raise TokenizerFailedError(f"no end within {time_limit_s:g} s") from error
    try:
        answer = json.loads(done.stdout)
    except ValueError as error:
        raise TokenizerFailedError("its rules need too much memory, or end the process") from error
    if "error" in answer:
        raise TokenizerFailedError(answer["error"])
    return answer["result"]


def main() -> None:
    """Answer the request on stdin."""
    request = json.load(sys.stdin)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        answer = {"result": _answer(request)}
    except (UnfitFileError, ValueError, MemoryError) as error:
        answer = {"error": shown(f"{error}" or type(error).__name__)}
    sys.stdout.write(json.dumps(answer))


def _answer(request: dict[str, Any]) -> Any:
    import msgspec

    from dflash_doctor.checkpoints.tokenizer_behaviour import find_difference, open_encoder

    loaded = [open_encoder(read_bytes(Path(file), max_bytes=_MAX_FILE_BYTES)) for file in request["files"]]
    if "texts" in request:
        return [loaded[0].encode(text, add_special_tokens=False).ids for text in request["texts"]]
    tried, difference = find_difference(
        *loaded, specials=request["specials"], max_examples=request["examples"]
    )
    return [tried, msgspec.to_builtins(difference)]
