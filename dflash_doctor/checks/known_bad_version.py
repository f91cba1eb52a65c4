"""An installed version is known to go wrong with what is in use

## What it checks

The installed engine packages against a table of versions and features that public reports or merged fixes
name (`environment/known_bad.toml`, with links). A row applies when the version lies in its range and every
feature it names is in use: the method, the kind of drafter, the attention backend, prefix caching, the
temperature and so on. A feature that cannot be known before the start leaves the row open, and is said.

## Why it matters

These faults are silent: the server is healthy, answers look right, and only acceptance, speed or the output
distribution suffers. Where the reports give no bound for a version, the row says so and is at most a
warning.

## Example

    DF005 vllm 0.28.0: a draft and the token that replaces it are sampled from the same noise
      seen:     vllm 0.28.0 (<=0.28.0); draft_sample_method probabilistic, temperature 0.7
      expected: vllm 0.32 or newer
      do:       draft greedily, or upgrade

## What to do

Upgrade to the version named, or switch off the feature; the flag is given where there is one.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.environment_view import environment_view
from dflash_doctor.contract.known_bad import KnownBadRow
from dflash_doctor.records import Finding

_SHOWN = 6


def judge(case: Case) -> Outcome:
    """Report the rows that apply, and what the open ones would need."""
    view = environment_view(case)
    if isinstance(view, Outcome):
        return view
    contract, facts = view
    if not facts.known_bad_asked:
        return skipped("not checked: nothing is installed that the table knows")
    features = {"method": contract.method, "temperature": case.temperature} | contract.features
    findings: list[Finding] = []
    open_features: dict[str, None] = {}
    num_open = 0
    for row in facts.known_bad:
        if row.engine not in (None, contract.served_by):
            continue
        applies = row.applies(features)
        if applies:
            findings.append(_finding(row, features))
        elif applies is None:
            num_open += 1
            open_features |= dict.fromkeys(row.undecided(features))
    unchecked = []
    if num_open:
        names = list(open_features)
        more = ", ..." if len(names) > _SHOWN else ""
        rows = "1 row" if num_open == 1 else f"{num_open} rows"
        unchecked.append(f"{rows} that would need to know {', '.join(names[:_SHOWN])}{more}")
    said = "no version here is known to go wrong with what is in use"
    compared = [f"{said} ({facts.known_bad_asked} rows)"] if not findings else []
    return settled(findings, compared=compared, unchecked=unchecked)


def _finding(row: KnownBadRow, features: dict[str, object]) -> Finding:
    used = ", ".join(f"{name} {_shown(features[name])}" for name in row.when)
    range_ = f" ({row.versions})" if row.versions else " (every version, as far as is known)"
    expected = f"{row.upgrade} or newer" if row.upgrade is not None else "a version without the fault"
    return Finding(
        code="DF005",
        severity=row.severity,
        message=f"{row.installed}: {row.summary}",
        observed=f"{row.installed}{range_}; {used}" if used else f"{row.installed}{range_}",
        expected=expected + (f". {row.note}" if row.note else ""),
        remedy=f"{row.remedy} (modes {', '.join(row.failure_modes)}; {', '.join(row.links)})",
        causes=row.causes,
        edit=row.edit or _upgrade(row),
    )


def _upgrade(row: KnownBadRow) -> str | None:
    if row.upgrade is None or row.installed is None:
        return None
    return f"pip install '{row.installed.split(' ')[0]}>={row.upgrade}'"


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
