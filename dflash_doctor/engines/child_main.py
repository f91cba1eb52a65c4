"""Runs one engine in a process of its own: `python -m dflash_doctor.engines.child_main FD MODULE:FUNCTION`.

FD is an inherited socket to the doctor. The engine's own output goes to this process's stdout and
stderr, which the doctor has pointed at the engine log.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from dflash_doctor.engines import messages
from dflash_doctor.engines.base import Engine, EngineOptions
from dflash_doctor.errors import DoctorError

_PROGRESS_PERIOD_S = 0.2
_PARENT_CHECK_PERIOD_S = 1.0

EngineBuilder = Callable[[EngineOptions], Engine]


def main(arguments: list[str]) -> int:
    """Serve calls until told to close or until the doctor is gone."""
    descriptor, place = arguments
    _die_with_the_doctor()
    connection = Connection(int(descriptor))
    module, _, function = place.partition(":")
    host = _Host(connection, module, function)
    try:
        while host.serve_one():
            pass
    except EOFError:
        _end_group()
    return 0


class _Host:
    """Holds the engine and answers one call at a time."""

    def __init__(self, connection: Connection, module: str, function: str) -> None:
        self._connection = connection
        self._module = module
        self._function = function
        self._engine: Engine | None = None
        self._last_progress = 0.0

    def serve_one(self) -> bool:
        """Answer the next call; False after `Close`."""
        call = msgspec.msgpack.decode(self._connection.recv_bytes(), type=messages.Call)
        try:
            result = self._perform(call)
            reply: messages.Reply = messages.Done(msgspec.msgpack.encode(result))
        except DoctorError as error:
            reply = messages.Failed(
                type(error).__name__, error.what, error.seen, error.remedy, traceback.format_exc()
            )
        except Exception as error:
            traceback.print_exc()
            seen = f"{type(error).__name__}: {error}"
            reply = messages.Failed("Exception", "", seen, "", traceback.format_exc())
        self._send(reply)
        return not isinstance(call, messages.Close)

    def close(self) -> None:
        """Close the engine, if there is one."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _perform(self, call: messages.Call) -> Any:
        if isinstance(call, messages.Start):
            build: EngineBuilder = getattr(importlib.import_module(self._module), self._function)
            self._engine = build(call.options)
            return self._engine.capabilities
        if isinstance(call, messages.Close):
            return self.close()
        engine = self._engine
        assert engine is not None, "the doctor sends Start first"
        match call:
            case messages.Describe():
                return engine.describe()
            case messages.Render():
                return engine.render(call.conversations, thinking=call.thinking)
            case messages.TokenTexts():
                return engine.token_texts(call.token_ids)
            case messages.SpecialTokenIds():
                return engine.special_token_ids()
            case messages.ChatTemplate():
                return engine.chat_template()
            case messages.Generate():
                return engine.generate(
                    call.prompts,
                    call.sampling,
                    capture=call.capture,
                    logprobs=call.logprobs,
                    max_concurrency=call.max_concurrency,
                    on_progress=self._progress,
                )
            case messages.Score():
                return engine.score(call.continuations)

    def _progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done == total or now - self._last_progress >= _PROGRESS_PERIOD_S:
            self._last_progress = now
            self._send(messages.Progress(done, total))

    def _send(self, reply: messages.Reply) -> None:
        self._connection.send_bytes(msgspec.msgpack.encode(reply))


def _die_with_the_doctor() -> None:
    """End this process group when the doctor is gone, however it went: an orphan would hold the device."""
    doctor = os.getppid()

    def watch() -> None:
        while os.getppid() == doctor:
            time.sleep(_PARENT_CHECK_PERIOD_S)
        _end_group()

    threading.Thread(target=watch, daemon=True, name="doctor-watch").start()


def _end_group() -> None:
    """Kill this process and all that the engine started; the doctor made it lead a group of its own."""
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
