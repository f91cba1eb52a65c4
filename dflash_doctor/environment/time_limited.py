"""Runs a command that may hang, crash or print without end, and comes back in bounded time and memory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

_KEPT_BYTES = 64 * 1024
_GRACE_S = 2.0


@dataclass(frozen=True)
class LimitedResult:
    """How a command ended."""

    code: int | None
    """Exit status, negative for a signal; `None`: it ran past its time and was ended, or did not start."""
    output: str
    """The last part of stdout and stderr together."""
    timed_out: bool = False

    @property
    def signal_name(self) -> str | None:
        """The signal that ended it, such as SIGSEGV."""
        if self.code is None or self.code >= 0:
            return None
        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"

    @property
    def last_line(self) -> str:
        """The last line that is not empty."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else ""


def run_limited(
    command: Sequence[str], *, time_limit_s: float, environment: Mapping[str, str] | None = None
) -> LimitedResult:
    """Run to the end or to the time limit; what it started in its session ends with it.

    Args:
        command: program and arguments.
        time_limit_s: seconds it may take.
        environment: variables on top of this process's own.
    """
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    except OSError as error:
        return LimitedResult(None, str(error))
    assert process.stdout is not None, "asked for above"
    kept = bytearray()
    reader = threading.Thread(target=_keep_tail, args=(process.stdout, kept), daemon=True)
    reader.start()
    timed_out = False
    try:
        code: int | None = process.wait(time_limit_s)
    except subprocess.TimeoutExpired:
        code, timed_out = None, True
    finally:
        _end(process)
    reader.join(_GRACE_S)
    return LimitedResult(code, bytes(kept).decode("utf-8", errors="replace"), timed_out)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the session: a child that outlives its parent would keep the pipe open."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)


def _keep_tail(stream: IO[bytes], kept: bytearray) -> None:
    with contextlib.suppress(OSError, ValueError):
        while chunk := stream.read1(65536):  # type: ignore[attr-defined]
            kept += chunk
            del kept[:-_KEPT_BYTES]
