"""The process that renders templates: run as a script by `template_render`, never imported by the package.

Reads one JSON request from standard input, writes one JSON line per event to standard output. Templates
are hostile: the process limits itself before it looks at the first one, and its parent ends it when that
is not enough. Only the standard library and jinja2 are imported.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

FIXED_DATE = datetime(2025, 3, 4, 5, 6, 7)
"""What `strftime_now` shows: the same in every rendering, so that a date is never a difference."""

_MAX_DETAIL = 300
_MAX_TIME_LIMITS = 2
"""A template that ran out of time this often is given up."""


class _OutOfTimeError(BaseException):
    """Not an `Exception`, so that nothing between the template and here can catch it."""


class _TooLargeError(Exception):
    pass


class _Clock:
    """Processor time for one step at a time: other load on the machine must not fail a template."""

    def __init__(self) -> None:
        self._running = False
        signal.signal(signal.SIGPROF, self._ring)

    def _ring(self, *_: object) -> None:
        if self._running:
            self._running = False
            raise _OutOfTimeError

    @contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Raises `_OutOfTimeError` after so many seconds; what Python cannot interrupt ends the process."""
        # SIGVTALRM has no handler: the kernel ends the process inside a long multiplication as well.
        signal.setitimer(signal.ITIMER_VIRTUAL, 2 * seconds)
        self._running = True
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            yield
        finally:
            self._running = False
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def main() -> None:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    # Found by the parent; appended, so that nothing there can stand in for the standard library.
    sys.path.extend(request["library_paths"])
    make_environment = _environment_factory()
    _limit_resources(request)
    clock = _Clock()
    for index, template in enumerate(request["templates"]):
        _Run(index, template, request, clock, make_environment).all_cases()


def _limit_resources(request: dict[str, Any]) -> None:
    memory, seconds = request["max_memory_bytes"], math.ceil(request["max_cpu_s"]) + 1
    for what, limit in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        hard = resource.getrlimit(what)[1]
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(what, (value, value))


class _Run:
    """All conversations through one template."""

    def __init__(
        self,
        index: int,
        template: dict[str, Any],
        request: dict[str, Any],
        clock: _Clock,
        make_environment: Callable[[], Any],
    ) -> None:
        self._index = index
        self._texts: dict[str, str] = template["texts"]
        self._special_tokens: dict[str, str] = template["special_tokens"]
        self._request = request
        self._clock = clock
        self._make_environment = make_environment
        self._compiled: dict[str, Any] = {}
        self._num_characters = 0

    def all_cases(self) -> None:
        """Render each, until the template fails as a whole or has used up its time."""
        budget = self._request["max_template_cpu_s"]
        started = time.process_time()
        num_late = 0
        for number, case in enumerate(self._request["cases"]):
            self._say(number, event="begin")
            if num_late == _MAX_TIME_LIMITS or time.process_time() - started > budget:
                detail = f"given up before conversation {number + 1} of {len(self._request['cases'])}"
                self._say(number, event="failed", kind="time-limit", detail=detail, whole=True)
                break
            try:
                with self._clock.limit(self._request["max_case_cpu_s"]):
                    text = self._render(case)
            except BaseException as error:
                kind, detail = _reason(error, self._request)
                num_late += kind == "time-limit"
                whole = len(self._texts) == 1 and not self._compiled
                self._say(number, event="failed", kind=kind, detail=detail, whole=whole)
                if whole:
                    break
            else:
                self._say(number, event="text", text=text)
        self._say(0, event="end")

    def _render(self, case: dict[str, Any]) -> str:
        parts = []
        size = 0
        variables = {**self._special_tokens, **case["variables"]}
        pieces = self._template_for(case).generate(
            messages=case["messages"],
            tools=case["tools"],
            documents=None,
            add_generation_prompt=case["add_generation_prompt"],
            **variables,
        )
        for piece in pieces:
            size += len(piece)
            if size > self._request["max_case_characters"]:
                raise _TooLargeError
            parts.append(piece)
        self._num_characters += size
        if self._num_characters > self._request["max_template_characters"]:
            raise _TooLargeError
        return "".join(parts)

    def _template_for(self, case: dict[str, Any]) -> Any:
        has_tools = case["tools"] is not None and "tool_use" in self._texts
        name = "tool_use" if has_tools else "default"
        if name not in self._texts:
            raise LookupError(f"there is no default template, only {', '.join(sorted(self._texts))}")
        if name not in self._compiled:
            self._compiled[name] = self._make_environment().from_string(self._texts[name])
        return self._compiled[name]

    def _say(self, case: int, **event: Any) -> None:
        # A template can make half of a surrogate pair, which no encoding can carry.
        words = {
            key: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
            for key, value in event.items()
        }
        line = json.dumps({"template": self._index, "case": case, **words}, ensure_ascii=False)
        data = line.encode() + b"\n"
        while data:
            data = data[os.write(1, data) :]


def _environment_factory() -> Callable[[], Any]:
    """Makes environments that render as Transformers does; written from its documented behaviour."""
    import jinja2
    import jinja2.ext
    from jinja2 import nodes, sandbox

    class GenerationTag(jinja2.ext.Extension):
        """`{% generation %}` marks the assistant's text in training; here its body is just rendered."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

        def _body(self, caller: Callable[[], str]) -> str:
            return caller()

    class Environment(sandbox.ImmutableSandboxedEnvironment):
        def handle_exception(self, source: str | None = None) -> Any:
            error = sys.exc_info()[1]
            # Jinja compiles a piece of code for every frame it rewrites: too much for a thousand frames.
            if isinstance(error, RecursionError | MemoryError):
                raise error
            return super().handle_exception(source)

    def raise_exception(message: Any) -> None:
        error = jinja2.TemplateError(message)
        error.is_refusal = True  # type: ignore[attr-defined]
        raise error

    def strftime_now(format: str) -> str:
        return FIXED_DATE.strftime(format)

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: Any = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        # The filter that comes with Jinja escapes for HTML.
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def make() -> Environment:
        made = Environment(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols]
        )
        made.filters["tojson"] = tojson
        made.globals["raise_exception"] = raise_exception
        made.globals["strftime_now"] = strftime_now
        return made

    return make


def _reason(error: BaseException, request: dict[str, Any]) -> tuple[str, str]:
    """What kind of failure an exception is, and its words."""
    import jinja2

    if isinstance(error, _OutOfTimeError):
        return "time-limit", f"not done after {request['max_case_cpu_s']:g} s of processor time"
    if isinstance(error, MemoryError):
        error.__traceback__ = None  # its frames hold what filled the memory
        return "memory-limit", f"needs more than {request['max_memory_bytes'] >> 20} MiB"
    if isinstance(error, _TooLargeError):
        return "output-too-large", f"more than {request['max_case_characters']} characters"
    if isinstance(error, jinja2.TemplateSyntaxError):
        return "syntax", _short(f"{error.message} (line {error.lineno})")
    if getattr(error, "is_refusal", False):
        return "refused", _short(str(error))
    # Only a traceback that Jinja rewrote has the template's own lines.
    where = "" if isinstance(error, RecursionError) else _line(error)
    if isinstance(error, jinja2.exceptions.SecurityError):
        return "unsafe", _short(f"{error}{where}")
    return "error", _short(f"{type(error).__name__}: {error}{where}")


def _line(error: BaseException) -> str:
    """Where in the template, in words; empty where that is not known."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f" (line {line})"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_DETAIL else text[:_MAX_DETAIL] + "…"


if __name__ == "__main__":
    main()
