"""Renders chat templates in a process of their own, which is limited and ended when it does not stop.

One process renders every conversation through every template. Where a template takes the process down,
its renderings so far are kept and a new process renders the templates after it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from dflash_doctor.contract.templates import FailureKind

_CHILD = Path(__file__).with_name("template_child.py")
_LIBRARIES = ("jinja2", "markupsafe")
_PASSED_ON = ("LD_LIBRARY_PATH", "PATH")
"""All a child gets of this process's environment: secrets in it are none of a template's business."""

_MAX_MEMORY_BYTES = 512 * 1024 * 1024
_MAX_CASE_CHARACTERS = 1_000_000
_MAX_TEMPLATE_CHARACTERS = 4_000_000
_MAX_ANSWER_BYTES = 64 * 1024 * 1024
_CASE_SHARE = 0.1
_TEMPLATE_SHARE = 0.3
"""Shares of the time limit that one conversation and one template may spend, in processor time."""

_TIME_SIGNALS = (signal.SIGVTALRM, signal.SIGPROF, signal.SIGXCPU)


class RenderCase(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation as it is handed to a template."""

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] | None = None
    add_generation_prompt: bool = True
    variables: dict[str, Any] = msgspec.field(default_factory=dict)
    """Passed to the template by name, such as `enable_thinking`."""


class RenderTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A template by its texts (`default`, and `tool_use` where there are tools) and special tokens."""

    texts: dict[str, str]
    special_tokens: dict[str, str] = msgspec.field(default_factory=dict)


class RenderFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a rendering is missing."""

    case: int | None
    """Index; `None` where the template as a whole failed, or was given up here."""
    kind: FailureKind
    detail: str


class Rendering(msgspec.Struct, frozen=True, kw_only=True):
    """What one template made of every conversation."""

    texts: tuple[str | None, ...]
    """In the order of the cases; `None` where it failed or was not reached."""
    failures: tuple[RenderFailure, ...] = ()


class RendererError(Exception):
    """No template could be rendered here, for no fault of theirs."""


class _Event(msgspec.Struct):
    """A line of the child, checked like any input: a template that broke out could have written it."""

    template: int
    case: int
    event: Literal["begin", "text", "failed", "end"]
    text: str = ""
    kind: FailureKind = "error"
    detail: str = ""
    whole: bool = False


class _Progress:
    """What is known of one template so far."""

    def __init__(self, num_cases: int) -> None:
        self.texts: list[str | None] = [None] * num_cases
        self.failures: list[RenderFailure] = []
        self.current: int | None = None
        self.is_done = False

    def add(self, event: _Event) -> None:
        if event.event == "begin":
            self.current = event.case
        elif event.event == "text":
            self.texts[event.case] = event.text
        elif event.event == "failed":
            self.fail(None if event.whole else event.case, event.kind, event.detail)
        else:
            self.is_done = True

    def fail(self, case: int | None, kind: FailureKind, detail: str) -> None:
        self.failures.append(RenderFailure(case=case, kind=kind, detail=detail))


def render_templates(
    templates: Sequence[RenderTemplate], cases: Sequence[RenderCase], *, time_limit_s: float
) -> tuple[Rendering, ...]:
    """What each template makes of each conversation; returns within the limit, whatever the templates do.

    Args:
        templates: untrusted.
        cases: the conversations.
        time_limit_s: wall clock for everything. A conversation may take a tenth of it and a template three
            tenths, in processor time.

    Raises:
        RendererError: no process could be started, or it does not find jinja2.
    """
    deadline = time.monotonic() + time_limit_s
    progress = [_Progress(len(cases)) for _ in templates]
    while any(not item.is_done for item in progress):
        todo = [index for index, item in enumerate(progress) if not item.is_done]
        request = _request([templates[index] for index in todo], cases, time_limit_s)
        answer, how = _run_child(request, deadline)
        _take(answer, [progress[index] for index in todo], len(cases))
        open_ = [progress[index] for index in todo if not progress[index].is_done]
        if not open_:
            break
        culprit = next((item for item in open_ if item.current is not None), None)
        if culprit is None and time.monotonic() < deadline:
            raise RendererError(f"the process that renders templates {how[1]}")
        for item in open_ if culprit is None else [culprit]:
            item.fail(item.current, *how)
            item.is_done = True
    return tuple(Rendering(texts=tuple(item.texts), failures=tuple(item.failures)) for item in progress)


def _request(templates: Sequence[RenderTemplate], cases: Sequence[RenderCase], time_limit_s: float) -> bytes:
    return msgspec.json.encode(
        {
            "library_paths": _library_paths(),
            "templates": templates,
            "cases": cases,
            "max_memory_bytes": _MAX_MEMORY_BYTES,
            "max_cpu_s": time_limit_s,
            "max_template_cpu_s": _TEMPLATE_SHARE * time_limit_s,
            "max_case_cpu_s": _CASE_SHARE * time_limit_s,
            "max_case_characters": _MAX_CASE_CHARACTERS,
            "max_template_characters": _MAX_TEMPLATE_CHARACTERS,
        }
    )


def _library_paths() -> list[str]:
    """Where the child finds its libraries: it starts without site-packages."""
    paths = []
    for name in _LIBRARIES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise RendererError(f"{name} is not installed")
        paths.append(str(Path(spec.origin).parent.parent))
    return list(dict.fromkeys(paths))


def _run_child(request: bytes, deadline: float) -> tuple[bytes, tuple[FailureKind, str]]:
    """What a child wrote, and how it ended, as a failure of whatever it was doing then."""
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    try:
        with tempfile.TemporaryFile() as stdin:
            # A file and not a pipe: a child that does not read cannot hold the parent up.
            stdin.write(request)
            stdin.seek(0)
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", str(_CHILD)],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
    except OSError as error:
        raise RendererError(f"the process that renders templates cannot be started: {error}") from error
    try:
        assert child.stdout is not None, "a pipe was asked for"
        answer, is_late = _read(child.stdout, deadline)
    finally:
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        code = child.wait()
        if child.stdout is not None:
            child.stdout.close()
    return answer, _ending(code, len(answer), is_late=is_late)


def _read(stream: IO[bytes], deadline: float) -> tuple[bytes, bool]:
    """Everything until the end of the stream, the size limit or the deadline, and whether it was that."""
    parts: list[bytes] = []
    size = 0
    while size <= _MAX_ANSWER_BYTES:
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not select.select([stream], [], [], remaining)[0]:
            return b"".join(parts), True
        part = os.read(stream.fileno(), 1 << 16)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts), False


def _ending(code: int, size: int, *, is_late: bool) -> tuple[FailureKind, str]:
    if is_late or -code in _TIME_SIGNALS:
        return "time-limit", "had to be ended: it did not stop by itself"
    if size > _MAX_ANSWER_BYTES:
        return "output-too-large", f"more than {_MAX_ANSWER_BYTES} bytes in all"
    if code < 0:
        return "error", f"was ended by signal {-code}"
    return "error", f"ended early with exit code {code}"


def _take(answer: bytes, progress: Sequence[_Progress], num_cases: int) -> None:
    """Add the lines of a child; a line cut short or out of place ends what is believed."""
    decoder = msgspec.json.Decoder(_Event)
    for line in answer.split(b"\n")[:-1]:
        try:
            event = decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        if not (0 <= event.template < len(progress) and 0 <= event.case < num_cases):
            return
        progress[event.template].add(event)
