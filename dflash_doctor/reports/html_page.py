"""The report as one self-contained HTML page: no network, readable without JavaScript.

Everything from the record and the evidence is untrusted: the templates escape it, the script writes it
through textContent only, and the page's own policy allows this script and this style sheet by their
hashes and nothing else, no request and no markup made from strings.
"""

from __future__ import annotations

import base64
import hashlib
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import jinja2
from markupsafe import Markup

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import RunRecord
from dflash_doctor.reports import wording
from dflash_doctor.reports.page_view import page_view

_PAGE = Path(__file__).resolve().parent / "page"
_SCRIPTS = ("shell.js", "unpack.js", "steps.js", "browser.js")
_MAX_WORD = 400
"""Longest untrusted text shown in one place; the record has all of it."""


def render(record: RunRecord, evidence: Evidence | None) -> bytes:
    """The page, UTF-8; without evidence it has no sample browser."""
    style = _asset("report.css")
    # One strict function: what the script declares is not visible to the page.
    script = "(() => {\n'use strict';\n" + "\n".join(map(_asset, _SCRIPTS)) + "\n})();"
    context = page_view(record, evidence) | {
        "style": Markup(style),
        "script": Markup(script),
        "policy": Markup(_policy(style=style, script=script)),
    }
    return _template().render(context).encode("utf-8", errors="replace")


def _policy(*, style: str, script: str) -> str:
    """The page's Content-Security-Policy."""
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_sha256(style)}'",
            f"script-src '{_sha256(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _sha256(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_PAGE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., str]] = {
        "visible": _visible,
        "token": lambda text: _visible(wording.token_text(str(text))),
        "number": wording.number,
        "percent": wording.percent,
        "interval": wording.interval,
        "percent_interval": wording.percent_interval,
        "probability": wording.probability,
        "seconds": wording.seconds,
        "plain": _plain,
        # As the sample browser knows it, so that the link finds it.
        "sample_ref": lambda name: urllib.parse.quote(wording.visible(str(name)), safe=""),
    }
    environment.filters |= filters
    return environment.get_template("report.html.j2")


def _visible(text: object) -> str:
    """Untrusted text, made visible and kept to a bearable length."""
    shown = wording.visible(str(text))
    return shown if len(shown) <= _MAX_WORD else shown[:_MAX_WORD] + "…"


def _plain(value: object) -> str:
    """A JSON value in words."""
    if value is None:
        return wording.NO_DATA
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value)) or "none"
    return _visible(value)
