"""The report as one self-contained HTML page: no network, readable without JavaScript.

Everything from the record and the evidence is untrusted: the template escapes it, the script writes it
through textContent only, and the page's own policy forbids any other script and any request.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from dflash_doctor.evidence import EngineFacts, Evidence
from dflash_doctor.records import Finding, RunRecord
from dflash_doctor.reports import wording
from dflash_doctor.reports.curve import acceptance_curve
from dflash_doctor.reports.samples import pack_samples

_PAGE = Path(__file__).resolve().parent / "page"
_SEVERITY_ORDER = ("error", "warning", "info")


def render(record: RunRecord, evidence: Evidence | None) -> bytes:
    """The page, UTF-8."""
    metrics = record.metrics
    samples = pack_samples(evidence, record.checks) if evidence is not None else ""
    script = _asset("report.js")
    context: dict[str, Any] = {
        "record": record,
        "verdict_word": wording.VERDICT_WORDS[record.verdict],
        "words": wording.VERDICT_WORDS,
        "definitions": wording.DEFINITIONS,
        "todo": _the_one_thing(record),
        "findings": _findings(record),
        "overall": metrics.overall,
        "lossless": metrics.lossless,
        "timing": metrics.timing,
        "rejections": metrics.rejections,
        "curve": acceptance_curve(metrics.by_position),
        "categories": list(metrics.by_category.values()),
        "near_misses": {name: item.near_miss_share for name, item in metrics.rejections_by_category.items()},
        "segments": list(metrics.by_segment.values()),
        "contexts": list(metrics.by_context),
        "bar": functools.partial(_bar, width=_widest(record)),
        "facts": list(_facts(record.engine)) if record.engine is not None else [],
        "settings": [(name, _plain(value)) for name, value in record.settings.items()],
        "environment": list(_flat(record.environment)),
        "has_samples": bool(samples),
        "samples": samples,
        "style": Markup(_asset("report.css")),
        "script": Markup(script),
        "script_hash": "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
    return _template().render(context).encode("utf-8", errors="replace")


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_PAGE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "visible": lambda text: wording.visible(str(text)),
        "quoted": lambda text: f"“{wording.visible(str(text))}”",
        "number": wording.number,
        "percent": wording.percent,
        "interval": wording.interval,
        "percent_interval": wording.percent_interval,
    }
    return environment.get_template("report.html.j2")


def _asset(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")


def _the_one_thing(record: RunRecord) -> str | None:
    """The remedy of what the summary speaks of; none when all is well."""
    if record.verdict == "passed":
        return None
    errors = [finding for finding in _findings(record) if finding.severity == "error"]
    named = next((item for item in errors if record.summary.startswith(item.code)), None)
    first = named or (errors[0] if errors else None)
    return first.remedy if first is not None else None


def _findings(record: RunRecord) -> list[Finding]:
    found = [finding for check in record.checks for finding in check.findings]
    return sorted(found, key=lambda finding: _SEVERITY_ORDER.index(finding.severity))


def _widest(record: RunRecord) -> float:
    """The acceptance length that fills a bar: that of a fully accepted block."""
    facts = record.engine
    if facts is not None and facts.num_spec_tokens:
        return facts.num_spec_tokens + 1.0
    lengths = [item.mean_acceptance_length.value or 1.0 for item in record.metrics.by_category.values()]
    return max(lengths, default=1.0)


def _bar(value: float | None, *, width: float) -> str:
    return "0" if value is None else f"{min(100.0, 100 * value / width):.1f}"


def _facts(facts: EngineFacts) -> Iterator[tuple[str, str]]:
    """What the live engine uses, in reading order, `no data` where it could not say."""
    for name in EngineFacts.__struct_fields__:
        if name not in ("live", "lossy_settings"):
            value = getattr(facts, name)
            yield name, wording.NO_DATA if value is None or value == () else _plain(value)
    for item in facts.lossy_settings:
        yield "LOSSY", item


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, _plain(value)


def _plain(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)
