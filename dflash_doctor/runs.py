"""A run on disk: the record, and the trace file that holds its evidence.

    RUN/
      run.json       the run record (`dflash_doctor.records`)
      traces.jsonl   the evidence, one tagged JSON object a line (`dflash_doctor.evidence`)
      report.html    written from the two
      engine.log     the engine's own output

Every file is written beside its place and moved there when complete, so a reader never sees half a file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from dflash_doctor.errors import RecordError, UsageError
from dflash_doctor.evidence import Evidence, Generation, RequestTrace
from dflash_doctor.records import SCHEMA_VERSION, RunRecord

RECORD_NAME = "run.json"
TRACES_NAME = "traces.jsonl"
REPORT_NAME = "report.html"
ENGINE_LOG_NAME = "engine.log"

TRACES_VERSION = 1


class _Header(msgspec.Struct, tag="header", frozen=True):
    version: int
    run_id: str


class _Frame(msgspec.Struct, tag="evidence", frozen=True):
    """The evidence with its passes emptied of requests."""

    evidence: Evidence


class _Request(msgspec.Struct, tag="request", frozen=True):
    """One request of the pass called `of` (a field of Evidence, repeats as `target_only_repeats.N`)."""

    of: str
    request: RequestTrace


_Line = _Header | _Frame | _Request


def prepare_folder(path: str | Path) -> Path:
    """Make the run folder and prove that it can be written.

    Raises:
        UsageError: it cannot; nothing is left behind.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            "the output folder cannot be written",
            seen=f"{folder}: {error.strerror or error}",
            remedy="name another with --output",
        ) from error
    return folder


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that appears at `path`, whole, when the block ends without an exception."""
    handle = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed below, then moved
        dir=path.parent, prefix=f".{path.name}.", delete=False
    )
    try:
        with handle:
            yield handle  # type: ignore[misc]
        umask = os.umask(0)
        os.umask(umask)
        Path(handle.name).chmod(0o666 & ~umask)
        Path(handle.name).replace(path)
    except BaseException:
        Path(handle.name).unlink(missing_ok=True)
        raise


def write_record(record: RunRecord, folder: Path) -> Path:
    """Write `run.json`; returns its path."""
    path = folder / RECORD_NAME
    with replacing(path) as file:
        file.write(encode_record(record))
    return path


def encode_record(record: RunRecord) -> bytes:
    """The record as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def read_record(path: str | Path) -> tuple[RunRecord, Path]:
    """Read a record; returns it with the folder it lies in.

    Args:
        path: a run folder or the record file itself.

    Raises:
        RecordError: missing, not a record, damaged, or written by a newer version.
    """
    file = Path(path)
    if file.is_dir():
        file = file / RECORD_NAME
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise RecordError(
            "there is no run record here",
            seen=f"{file}: {error.strerror or error}",
            remedy="name a run folder or its run.json",
        ) from error
    try:
        version = msgspec.json.decode(raw, type=_VersionOnly).schema_version
        if version > SCHEMA_VERSION:
            raise RecordError(
                "the run record is of a newer version",
                seen=f"{file}: schema_version {version}, this reads up to {SCHEMA_VERSION}",
                remedy="upgrade dflash-doctor",
            )
        return msgspec.json.decode(raw, type=RunRecord), file.parent
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(
            "this is not a run record", seen=f"{file}: {error}", remedy="name a run.json of dflash-doctor"
        ) from error


class _VersionOnly(msgspec.Struct):
    schema_version: int


def write_traces(evidence: Evidence, folder: Path, run_id: str) -> Path:
    """Write the evidence, one request a line; returns the file's path."""
    path = folder / TRACES_NAME
    encoder = msgspec.json.Encoder()
    frame, passes = _split(evidence)
    with replacing(path) as file:
        for line in (_Header(TRACES_VERSION, run_id), _Frame(frame)):
            file.write(encoder.encode(line) + b"\n")
        for name, generation in passes:
            for request in generation.requests:
                file.write(encoder.encode(_Request(name, request)) + b"\n")
    return path


def read_traces(path: Path) -> Evidence:
    """Read a trace file back into evidence.

    Raises:
        RecordError: missing, damaged (with the line number), or of a newer version.
    """
    decoder = msgspec.json.Decoder(_Line)
    frame: Evidence | None = None
    requests: dict[str, list[RequestTrace]] = {}
    number = 0
    try:
        with path.open("rb") as file:
            for raw in file:
                number += 1
                line = decoder.decode(raw)
                if isinstance(line, _Header):
                    _require_version(path, line.version)
                elif isinstance(line, _Frame):
                    frame = line.evidence
                else:
                    requests.setdefault(line.of, []).append(line.request)
    except OSError as error:
        raise RecordError(
            "the trace file cannot be read",
            seen=f"{path}: {error.strerror or error}",
            remedy="keep traces.jsonl beside run.json",
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(
            "the trace file is damaged", seen=f"{path}:{number}: {error}", remedy="run again"
        ) from error
    if frame is None:
        raise RecordError(
            "the trace file has no evidence line", seen=f"{path}: {number} lines", remedy="run again"
        )
    return _join(frame, requests)


def _require_version(path: Path, version: int) -> None:
    if version > TRACES_VERSION:
        raise RecordError(
            "the trace file is of a newer version",
            seen=f"{path}: version {version}, this reads up to {TRACES_VERSION}",
            remedy="upgrade dflash-doctor",
        )


_PASSES = ("speculative", "speculative_timing", "target_only")


def _split(evidence: Evidence) -> tuple[Evidence, list[tuple[str, Generation]]]:
    passes: list[tuple[str, Generation]] = []
    emptied: dict[str, Generation] = {}
    for name in _PASSES:
        generation = getattr(evidence, name)
        if generation is not None:
            passes.append((name, generation))
            emptied[name] = msgspec.structs.replace(generation, requests=())
    repeats = []
    for index, generation in enumerate(evidence.target_only_repeats):
        passes.append((f"target_only_repeats.{index}", generation))
        repeats.append(msgspec.structs.replace(generation, requests=()))
    frame = msgspec.structs.replace(evidence, **emptied, target_only_repeats=tuple(repeats))
    return frame, passes


def _join(frame: Evidence, requests: dict[str, list[RequestTrace]]) -> Evidence:
    filled: dict[str, Generation] = {}
    for name in _PASSES:
        generation = getattr(frame, name)
        if generation is not None:
            filled[name] = msgspec.structs.replace(generation, requests=tuple(requests.get(name, ())))
    repeats = tuple(
        msgspec.structs.replace(generation, requests=tuple(requests.get(f"target_only_repeats.{index}", ())))
        for index, generation in enumerate(frame.target_only_repeats)
    )
    return msgspec.structs.replace(frame, **filled, target_only_repeats=repeats)
