"""The doctor's side of a child process.

The child leads its own process group, so that closing it also ends what it started (vLLM's core and worker
processes). Ctrl-C reaches only the doctor, which then closes the child in order.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dflash_doctor import errors
from dflash_doctor.errors import DoctorError, EngineError, EngineTimeoutError
from dflash_doctor.hosting import messages
from dflash_doctor.hosting.child_log import telling_lines

_CLOSE_GRACE_S = 15.0
_TERMINATE_GRACE_S = 5.0
_POLL_S = 0.5

ProcessT = TypeVar("ProcessT", bound="HostedProcess")


@dataclass(frozen=True)
class Hosting:
    """What is run in the child, and how patient the doctor is with it."""

    what: str
    """For messages: `vllm engine`."""
    service: str
    """`module:function` of the service, called with `argument`."""
    argument: str = ""
    log_path: str | None = None
    """File the child's own output goes to."""
    stall_timeout_s: float = 300.0
    """Longest silence before the child counts as hung."""


class HostedProcess:
    """A service in a child process that answers one call at a time."""

    def __init__(self, hosting: Hosting, process: subprocess.Popen[bytes], connection: Connection) -> None:
        self._hosting = hosting
        self._process = process
        self._connection = connection
        self._closed = False

    @classmethod
    def spawn(cls: type[ProcessT], hosting: Hosting) -> ProcessT:
        """Start the child; nothing is asked of it yet."""
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as stack:
            stack.enter_context(theirs)
            log = stack.enter_context(open(hosting.log_path or os.devnull, "ab"))
            arguments = [str(theirs.fileno()), hosting.service, hosting.argument]
            process = subprocess.Popen(
                [sys.executable, "-m", "dflash_doctor.hosting.child_main", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        return cls(hosting, process, Connection(ours.detach()))

    def ask(
        self,
        call: msgspec.Struct,
        result_type: Any,
        *,
        timeout_s: float | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Any:
        """The answer to a call; every sign of life restarts the watchdog's clock.

        Raises:
            EngineTimeoutError: no sign of life in time; the child was stopped.
            EngineError: the child failed or died; the message holds the telling lines of its log.
            DoctorError: whatever of the doctor's own errors the service raised.
        """
        what = self._hosting.what
        if self._closed:
            raise EngineError(f"the {what} is closed", seen=type(call).__name__, remedy="start another")
        allowed = timeout_s if timeout_s is not None else self._hosting.stall_timeout_s
        doing = type(call).__name__.lower()
        try:
            self._connection.send_bytes(msgspec.msgpack.encode(call))
            while True:
                reply = self._receive(doing, allowed)
                if isinstance(reply, messages.Progress):
                    if on_progress is not None:
                        on_progress(reply.done, reply.total)
                elif isinstance(reply, messages.Done):
                    return msgspec.msgpack.decode(reply.result, type=result_type)
                else:
                    raise self._as_error(reply, doing)
        except (EOFError, OSError):
            raise self._died(doing) from None
        except KeyboardInterrupt:
            self.kill()
            raise

    def close(self) -> None:
        """Stop the child and everything it started."""
        if self._closed:
            return
        try:
            with contextlib.suppress(OSError):
                self._connection.send_bytes(msgspec.msgpack.encode(messages.Close()))
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_CLOSE_GRACE_S)
        finally:
            self.kill()

    def __enter__(self: ProcessT) -> ProcessT:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _receive(self, doing: str, allowed_s: float) -> messages.Reply:
        deadline = time.monotonic() + allowed_s
        while not self._connection.poll(_POLL_S):
            if self._process.poll() is not None and not self._connection.poll(0):
                raise EOFError
            if time.monotonic() > deadline:
                self.kill()
                raise EngineTimeoutError(
                    f"the {self._hosting.what} hung while asked to {doing}",
                    seen=f"no sign of life for {allowed_s:g} s; it was stopped. {self._log_hint()}",
                    remedy="raise --start-timeout or --stall-timeout if the machine is just slow",
                )
        return msgspec.msgpack.decode(self._connection.recv_bytes(), type=messages.Reply)

    def _as_error(self, failed: messages.Failed, doing: str) -> DoctorError:
        kind = getattr(errors, failed.kind, None)
        if isinstance(kind, type) and issubclass(kind, DoctorError):
            return kind(failed.what, seen=failed.seen, remedy=failed.remedy)
        return EngineError(
            f"the {self._hosting.what} failed to {doing}",
            seen=f"{failed.seen}. {self._log_hint()}".strip(),
            remedy=f"read {self._hosting.log_path}" if self._hosting.log_path else "",
        )

    def _died(self, doing: str) -> EngineError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TERMINATE_GRACE_S)
        code = self._process.returncode
        self.kill()
        if code is None:
            how = "it closed its connection"
        elif code < 0:
            how = f"killed by {signal.Signals(-code).name}"
            if -code == signal.SIGKILL:
                how += " (out of memory is the usual reason)"
        else:
            how = f"exit status {code}"
        return EngineError(
            f"the {self._hosting.what} died while asked to {doing}",
            seen=f"{how}. {self._log_hint()}".strip(),
            remedy=f"read {self._hosting.log_path}" if self._hosting.log_path else "",
        )

    def _log_hint(self) -> str:
        path = self._hosting.log_path
        lines = telling_lines(Path(path)) if path else ()
        return "Its log says: " + " | ".join(lines) if lines else ""

    def kill(self) -> None:
        """End the child's whole process group; its members may outlive the child itself."""
        self._closed = True
        self._connection.close()
        for number, grace in ((signal.SIGTERM, _TERMINATE_GRACE_S), (signal.SIGKILL, _TERMINATE_GRACE_S)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
