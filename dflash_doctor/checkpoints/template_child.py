"""Renders one chat template in a process of its own: it may loop, grow or reach for what is not its own.

Run as a script with a request on stdin; prints one JSON line per case. Nothing of the package is imported.

The environment is the one in which Transformers renders (`utils/chat_template_utils.py`, 5.24): immutable
sandbox, blocks trimmed, loop controls, a `tojson` that escapes nothing, `raise_exception`, `strftime_now`,
and the tag `generation`. The date is a fixed one, so that two renderings can be compared.
"""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import sys
from datetime import datetime
from typing import Any

_COMPILE_S = 5.0
"""Compiling is done once and loops over nothing: a loaded machine may take its time."""
_MAX_LATE = 3
"""Conversations that may run into the limit; a template that loops would take it for each of forty."""
NOW = datetime(2026, 1, 2, 3, 4, 5)


class _TooLargeError(Exception):
    pass


class _TooLongError(BaseException):
    """No `Exception`: a template must not be able to catch it."""


def environment() -> Any:
    """The environment in which chat templates are rendered."""
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %} ... {% endgeneration %}` marks an answer; the text inside counts as it is."""

        tags = {"generation"}  # noqa: RUF012 - jinja2 reads it so

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            call = self.call_method("_as_it_is")
            return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

        def _as_it_is(self, caller: Any) -> Any:
            return caller()

    def refuse(message: object) -> None:
        raise jinja2.TemplateError(str(message))

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: Any = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    found = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    found.filters["tojson"] = tojson
    found.globals["raise_exception"] = refuse
    found.globals["strftime_now"] = NOW.strftime
    return found


def render(template: Any, variables: dict[str, Any], *, limit_s: float, max_chars: int) -> dict[str, str]:
    """The text, or how it failed: `{"text": ...}` or `{"kind": ..., "detail": ...}`."""
    import jinja2
    from jinja2.exceptions import SecurityError

    parts: list[str] = []
    size = 0
    try:
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        for part in template.generate(**variables):
            parts.append(part)
            size += len(part)
            if size > max_chars:
                raise _TooLargeError
    except _TooLargeError:
        return {"kind": "output-too-large", "detail": f"more than {max_chars:,} characters"}
    except _TooLongError:
        return {"kind": "time-limit", "detail": f"more than {limit_s:g} s"}
    except MemoryError:
        return {"kind": "output-too-large", "detail": "out of memory"}
    except SecurityError as error:
        return {"kind": "unsafe", "detail": str(error)[:300]}
    except OverflowError as error:
        return {"kind": "output-too-large", "detail": str(error)[:300]}
    except RecursionError:
        return {"kind": "error", "detail": "it calls itself without end"}
    except jinja2.TemplateError as error:
        kind = "refused" if type(error) is jinja2.TemplateError else "error"
        return {"kind": kind, "detail": f"{type(error).__name__}: {error}"[:300]}
    except Exception as error:
        return {"kind": "error", "detail": f"{type(error).__name__}: {error}"[:300]}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {"text": "".join(parts)}


def _alarm(number: int, frame: object) -> None:
    raise _TooLongError


def main() -> None:
    """Answer the request on stdin."""
    request = json.load(sys.stdin)
    import jinja2

    made = environment()
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (request["max_bytes"], request["max_bytes"]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, _alarm)
    out = sys.stdout
    try:
        signal.setitimer(signal.ITIMER_REAL, _COMPILE_S)
        template = made.from_string(request["template"])
        signal.setitimer(signal.ITIMER_REAL, 0)
    except jinja2.TemplateSyntaxError as error:
        out.write(
            json.dumps({"kind": "syntax", "detail": f"line {error.lineno}: {error.message}"[:300]}) + "\n"
        )
        return
    except (_TooLongError, RecursionError, MemoryError) as error:
        out.write(
            json.dumps({"kind": "syntax", "detail": f"it cannot be compiled: {type(error).__name__}"}) + "\n"
        )
        return
    except Exception as error:
        out.write(json.dumps({"kind": "syntax", "detail": f"{type(error).__name__}: {error}"[:300]}) + "\n")
        return
    num_late = 0
    for variables in request["cases"]:
        if num_late == _MAX_LATE:
            answer = {"kind": "time-limit", "detail": "not tried after others that did not end"}
            out.write(json.dumps(answer) + "\n")
            continue
        answer = render(template, variables, limit_s=request["limit_s"], max_chars=request["max_chars"])
        out.write(json.dumps(answer) + "\n")
        out.flush()
        num_late += answer.get("kind") == "time-limit"


if __name__ == "__main__":
    main()
