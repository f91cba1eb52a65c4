"""Runs one service in a process of its own: `python -m dflash_doctor.hosting.child_main FD SERVICE ARGUMENT`.

SERVICE is `module:function`, called with ARGUMENT. FD is an inherited socket to the doctor. What the service
prints goes to this process's stdout and stderr, which the doctor has pointed at a log.
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
from typing import Any, Protocol

import msgspec

from dflash_doctor.errors import DoctorError
from dflash_doctor.hosting import messages

_PROGRESS_PERIOD_S = 0.2
_PARENT_CHECK_PERIOD_S = 1.0


class Service(Protocol):
    """What a child does."""

    call_type: Any
    """The union of its calls, `Close` among them."""

    def perform(self, call: Any, progress: Callable[[int, int], None]) -> Any:
        """The answer to a call, as msgpack can carry it."""


def main(arguments: list[str]) -> int:
    """Serve calls until told to close or until the doctor is gone."""
    descriptor, place, argument = arguments
    _die_with_the_doctor()
    connection = Connection(int(descriptor))
    host = _Host(connection, place, argument)
    try:
        while host.serve_one():
            pass
    except EOFError:
        _end_group()
    return 0


class _Host:
    """Makes the service at the first call and answers one call at a time."""

    def __init__(self, connection: Connection, place: str, argument: str) -> None:
        self._connection = connection
        module, _, function = place.partition(":")
        self._service: Service = getattr(importlib.import_module(module), function)(argument)
        self._last_progress = 0.0

    def serve_one(self) -> bool:
        """Answer the next call; False after `Close`."""
        call = msgspec.msgpack.decode(self._connection.recv_bytes(), type=self._service.call_type)
        try:
            result = self._service.perform(call, self._progress)
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
