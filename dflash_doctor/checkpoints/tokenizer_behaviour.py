"""Tokenises the same texts with both tokenizers, in a child process.

Why a child: the `tokenizers` library trusts its file. A `Replace` normaliser that doubles its input makes it
ask for all memory of the machine, a failed allocation or an exhausted stack aborts the process, a regular
expression can backtrack for minutes, and a panic prints its trace past Python's stderr. None of this can be
caught from inside; a child has a memory limit, a time limit and a stderr of its own.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

import dflash_doctor
from dflash_doctor.checkpoints.token_text import Alphabet, bytes_of
from dflash_doctor.checkpoints.tokenizer_file import TokenizerFile
from dflash_doctor.checkpoints.tokenizer_json import AddedEntry, merges_of
from dflash_doctor.contract.tokenizers import BehaviourComparison

TIME_LIMIT_S = 30.0
"""Two real tokenizers of 250,000 tokens take about three seconds, most of it loading."""

_MAX_SPECIAL_TEXTS = 200
"""Strings of added tokens tried inside texts: of those that both have, and of those that one has."""
_MAX_HINTS = 100
_MAX_SPECIAL_CHARACTERS = 100
"""Longer ones are left out."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One tokenizer, as the child is to load it."""

    name: str
    path: str
    late: tuple[AddedEntry, ...]
    splits_special_tokens: bool
    alphabet: Alphabet


class CompareJob(msgspec.Struct, frozen=True, kw_only=True, tag="compare"):
    """Two tokenizers to be compared on texts."""

    target: Side
    draft: Side
    shared_texts: tuple[str, ...]
    """Added tokens that both have."""
    one_sided_texts: tuple[str, ...]
    """Added tokens that only one has."""
    hints: tuple[str, ...]
    """Other texts worth trying: where the merges differ, and a sample of the vocabulary."""
    max_examples: int
    seed: int


class EncodeJob(msgspec.Struct, frozen=True, kw_only=True, tag="encode"):
    """Texts to be tokenised."""

    side: Side
    texts: tuple[str, ...]


def compare_behaviour(
    target: TokenizerFile,
    draft: TokenizerFile,
    *,
    max_examples: int,
    seed: int,
    time_limit_s: float = TIME_LIMIT_S,
) -> BehaviourComparison:
    """The smallest text found that the two turn into different ids; never raises.

    When the time is over or the library takes the child down, what it had found by then is kept.
    """
    ours, theirs = _texts(target), _texts(draft)
    job = CompareJob(
        target=side_of("target", target),
        draft=side_of("drafter", draft),
        shared_texts=tuple(text for text in ours if text in theirs)[:_MAX_SPECIAL_TEXTS],
        one_sided_texts=tuple(
            sorted(ours.keys() ^ theirs.keys(), key=lambda text: (len(text), text))[:_MAX_SPECIAL_TEXTS]
        ),
        hints=_hints(target, draft, seed),
        max_examples=max_examples,
        seed=seed,
    )
    return _last_report(*_run_child(job, time_limit_s))


def encode_texts(
    tokenizer: TokenizerFile, texts: Sequence[str], *, time_limit_s: float = TIME_LIMIT_S
) -> list[list[int]] | None:
    """Token ids of each text, without special tokens around it; `None` where the tokenizer gives none."""
    if tokenizer.parsed is None:
        return None
    job = EncodeJob(side=side_of("target", tokenizer), texts=tuple(texts))
    output, ending = _run_child(job, time_limit_s)
    try:
        return None if ending else msgspec.json.decode(output, type=list[list[int]])
    except msgspec.MsgspecError:
        return None


def side_of(name: str, side: TokenizerFile) -> Side:
    """How the child is told of a tokenizer that was read."""
    assert side.settings is not None, "read"
    assert side.parsed is not None, "read"
    return Side(
        name=name,
        path=str(side.path),
        late=side.late,
        splits_special_tokens=side.settings.splits_special_tokens,
        alphabet=side.parsed.alphabet,
    )


def _texts(side: TokenizerFile) -> dict[str, None]:
    """Strings of its added tokens in id order, special ones first."""
    entries = sorted(side.added.items(), key=lambda item: (not item[1].special, item[0]))
    texts = (entry.content for _, entry in entries if 0 < len(entry.content) <= _MAX_SPECIAL_CHARACTERS)
    return dict.fromkeys(texts)


def _hints(target: TokenizerFile, draft: TokenizerFile, seed: int) -> tuple[str, ...]:
    """Texts of merges that only one side has, and of some tokens; a battery meets few of 250,000 entries."""
    assert target.parsed is not None, "read"
    assert draft.parsed is not None, "read"
    merged: list[tuple[str, str]] = []
    if target.parsed.merges != draft.parsed.merges:
        merged = sorted(set(merges_of(target.parsed.merges)) ^ set(merges_of(draft.parsed.merges)))
    texts = [bytes_of("".join(pair), target.parsed.alphabet) for pair in merged[:_MAX_HINTS]]
    ids = sorted(target.parsed.vocabulary.keys() & draft.parsed.vocabulary.keys())
    chosen = random.Random(seed).sample(ids, min(_MAX_HINTS, len(ids)))
    texts += [target.literal(number) or b"" for number in chosen]
    whole = (text.decode("utf-8", errors="ignore") for text in texts)
    return tuple(text for text in whole if 0 < len(text) <= _MAX_SPECIAL_CHARACTERS)


def _run_child(job: CompareJob | EncodeJob, time_limit_s: float) -> tuple[bytes, str]:
    """What the child wrote, and how it ended where that was not as it should."""
    with tempfile.TemporaryDirectory(prefix="dflash-doctor-") as scratch:
        return _run_child_in(scratch, msgspec.json.encode(job), time_limit_s)


def _run_child_in(scratch: str, job: bytes, time_limit_s: float) -> tuple[bytes, str]:
    package_root = str(Path(dflash_doctor.__file__).resolve().parent.parent)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")])),
        # One thread: two small encodings gain nothing, and each thread's stack counts against the limit.
        "TOKENIZERS_PARALLELISM": "false",
        "RAYON_NUM_THREADS": "1",
        # A panic is caught; printing its trace can exceed the memory limit, and that is not.
        "RUST_BACKTRACE": "0",
    }
    try:
        result = subprocess.run(
            # -P: a checkpoint folder that is the working directory must not be imported from.
            [sys.executable, "-P", "-m", "dflash_doctor.checkpoints.tokenizer_behaviour_child", scratch],
            input=job,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=time_limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        return expired.stdout or b"", f"the tokenizers library took longer than {time_limit_s:g} s"
    except OSError as error:
        return b"", f"no process could be started: {error.strerror or error}"
    if result.returncode < 0:
        return result.stdout, f"the tokenizers library died of signal {-result.returncode}"
    return result.stdout, "the tokenizers library failed" if result.returncode else ""


def _last_report(output: bytes, ending: str) -> BehaviourComparison:
    """The last whole line that the child wrote."""
    report = BehaviourComparison()
    for line in reversed(output.splitlines()):
        try:
            report = msgspec.json.decode(line, type=BehaviourComparison)
        except msgspec.MsgspecError:
            continue
        break
    return msgspec.structs.replace(report, unchecked=ending or report.unchecked)
