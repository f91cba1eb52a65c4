"""What the doctor and a child process say to each other: one msgpack message each way.

The doctor sends a call; the child answers with any number of `Progress` and then one `Done` or `Failed`.
Which calls there are is the affair of the service that the child runs.
"""

from __future__ import annotations

import msgspec


class Close(msgspec.Struct, tag="close", frozen=True):
    """Stop; answered with nothing, then the child ends."""


class Progress(msgspec.Struct, tag="progress", frozen=True):
    """A sign of life: items done, items in all."""

    done: int
    total: int


class Done(msgspec.Struct, tag="done", frozen=True):
    """The answer to the call, still encoded."""

    result: bytes


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """The call raised; `kind` names the doctor's own exception class, or is `Exception`."""

    kind: str
    what: str
    seen: str
    remedy: str
    traceback: str


Reply = Progress | Done | Failed
