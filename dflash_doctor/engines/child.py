"""An engine in a child process, with a watchdog: a crash, a hang or a leak never takes the report with it.

The child leads its own process group, so that closing it also ends what the engine started (vLLM's core
and worker processes). Ctrl-C reaches only the doctor, which then closes the child in order.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dflash_doctor import errors
from dflash_doctor.engines import messages
from dflash_doctor.engines.base import (
    Capabilities,
    Continuation,
    Conversation,
    EngineOptions,
    ProgressCallback,
    Sampling,
    TokenizedPrompt,
)
from dflash_doctor.engines.engine_log import telling_lines
from dflash_doctor.errors import DoctorError, EngineError, EngineTimeoutError
from dflash_doctor.evidence import EngineFacts, Generation

_CLOSE_GRACE_S = 15.0
_TERMINATE_GRACE_S = 5.0
_POLL_S = 0.5

EngineT = TypeVar("EngineT", bound="HostedEngine")


class HostedEngine:
    """An `Engine` whose work is done in a child process."""

    def __init__(
        self,
        name: str,
        process: subprocess.Popen[bytes],
        connection: Connection,
        options: EngineOptions,
    ) -> None:
        self.name = name
        self._process = process
        self._connection = connection
        self._options = options
        self._closed = False
        self._capabilities: Capabilities | None = None

    @classmethod
    def start(cls: type[EngineT], name: str, builder: str, options: EngineOptions) -> EngineT:
        """Start a child and build the engine in it.

        Args:
            name: the engine's catalog name, for messages.
            builder: `module:function` that makes the engine from options.
            options: sent to the builder.

        Raises:
            EngineError: it did not start; the message holds the telling lines of its log.
            EngineTimeoutError: it was not up within `options.start_timeout_s`.
        """
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as stack:
            stack.enter_context(theirs)
            log = stack.enter_context(open(options.log_path or os.devnull, "ab"))
            process = subprocess.Popen(
                [sys.executable, "-m", "dflash_doctor.engines.child_main", str(theirs.fileno()), builder],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        engine = cls(name, process, Connection(ours.detach()), options)
        try:
            call = messages.Start(options)
            engine._capabilities = engine._ask(call, timeout_s=options.start_timeout_s)
        except BaseException:
            engine._kill()
            raise
        return engine

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked."""
        assert self._capabilities is not None, "set by start"
        return self._capabilities

    def describe(self) -> EngineFacts:
        """See `Engine.describe`."""
        facts: EngineFacts = self._ask(messages.Describe())
        return facts

    def render(self, conversations: Sequence[Conversation], *, thinking: str) -> tuple[tuple[int, ...], ...]:
        """See `Engine.render`."""
        ids: tuple[tuple[int, ...], ...] = self._ask(messages.Render(tuple(conversations), thinking))
        return ids

    def token_texts(self, token_ids: Sequence[int]) -> dict[int, str]:
        """See `Engine.token_texts`."""
        texts: dict[int, str] = self._ask(messages.TokenTexts(tuple(token_ids)))
        return texts

    def special_token_ids(self) -> dict[str, int]:
        """See `Engine.special_token_ids`."""
        ids: dict[str, int] = self._ask(messages.SpecialTokenIds())
        return ids

    def chat_template(self) -> str | None:
        """See `Engine.chat_template`."""
        template: str | None = self._ask(messages.ChatTemplate())
        return template

    def generate(
        self,
        prompts: Sequence[TokenizedPrompt],
        sampling: Sampling,
        *,
        capture: bool,
        logprobs: bool = False,
        max_concurrency: int | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> Generation:
        """See `Engine.generate`."""
        call = messages.Generate(tuple(prompts), sampling, capture, logprobs, max_concurrency)
        generation: Generation = self._ask(call, on_progress=on_progress)
        return generation

    def score(self, continuations: Sequence[Continuation]) -> tuple[tuple[float, ...], ...]:
        """See `Engine.score`."""
        scores: tuple[tuple[float, ...], ...] = self._ask(messages.Score(tuple(continuations)))
        return scores

    def close(self) -> None:
        """Stop the engine and everything it started."""
        if self._closed:
            return
        try:
            with contextlib.suppress(OSError):
                self._connection.send_bytes(msgspec.msgpack.encode(messages.Close()))
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_CLOSE_GRACE_S)
        finally:
            self._kill()

    def __enter__(self: EngineT) -> EngineT:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _ask(
        self,
        call: messages.Call,
        *,
        timeout_s: float | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> Any:
        """The answer to a call; every sign of life restarts the watchdog's clock."""
        if self._closed:
            raise EngineError(
                f"the {self.name} engine is closed", seen=type(call).__name__, remedy="start another"
            )
        allowed = timeout_s if timeout_s is not None else self._options.stall_timeout_s
        doing = type(call).__name__.lower()
        try:
            self._connection.send_bytes(msgspec.msgpack.encode(call))
            while True:
                reply = self._receive(doing, allowed)
                if isinstance(reply, messages.Progress):
                    if on_progress is not None:
                        on_progress(reply.done, reply.total)
                elif isinstance(reply, messages.Done):
                    return msgspec.msgpack.decode(reply.result, type=messages.RESULT_TYPES[type(call)])
                else:
                    raise self._as_error(reply, doing)
        except (EOFError, OSError):
            raise self._died(doing) from None
        except KeyboardInterrupt:
            self._kill()
            raise

    def _receive(self, doing: str, allowed_s: float) -> messages.Reply:
        deadline = time.monotonic() + allowed_s
        while not self._connection.poll(_POLL_S):
            if self._process.poll() is not None and not self._connection.poll(0):
                raise EOFError
            if time.monotonic() > deadline:
                self._kill()
                raise EngineTimeoutError(
                    f"the {self.name} engine hung while asked to {doing}",
                    seen=f"no sign of life for {allowed_s:g} s; it was stopped. {self._log_hint()}",
                    remedy="raise --start-timeout or --stall-timeout if the machine is just slow",
                )
        return msgspec.msgpack.decode(self._connection.recv_bytes(), type=messages.Reply)

    def _as_error(self, failed: messages.Failed, doing: str) -> DoctorError:
        kind = getattr(errors, failed.kind, None)
        if isinstance(kind, type) and issubclass(kind, DoctorError):
            return kind(failed.what, seen=failed.seen, remedy=failed.remedy)
        return EngineError(
            f"the {self.name} engine failed to {doing}",
            seen=f"{failed.seen}. {self._log_hint()}".strip(),
            remedy=f"read {self._options.log_path}" if self._options.log_path else "",
        )

    def _died(self, doing: str) -> EngineError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TERMINATE_GRACE_S)
        code = self._process.returncode
        self._kill()
        if code is None:
            how = "it closed its connection"
        elif code < 0:
            how = f"killed by {signal.Signals(-code).name}"
            if -code == signal.SIGKILL:
                how += " (out of memory is the usual reason)"
        else:
            how = f"exit status {code}"
        return EngineError(
            f"the {self.name} engine died while asked to {doing}",
            seen=f"{how}. {self._log_hint()}".strip(),
            remedy=f"read {self._options.log_path}" if self._options.log_path else "",
        )

    def _log_hint(self) -> str:
        path = self._options.log_path
        lines = telling_lines(Path(path)) if path else ()
        return "Its log says: " + " | ".join(lines) if lines else ""

    def _kill(self) -> None:
        """End the child's whole process group; its members may outlive the child itself."""
        self._closed = True
        self._connection.close()
        for number, grace in ((signal.SIGTERM, _TERMINATE_GRACE_S), (signal.SIGKILL, _TERMINATE_GRACE_S)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
