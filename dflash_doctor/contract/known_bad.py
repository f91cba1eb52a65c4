"""A version that is known to go wrong with something: one row of the table, and when it applies."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from dflash_doctor.contract.features import BY_NAME

Bound = Literal["fixed in", "seen in", "reported in", "read in"]
"""What the version range rests on.

`fixed in`: a release without the fault is known, and earlier ones have it. `seen in`: releases in which the
fault was confirmed by a maintainer or a merged fix; later ones may have it. `reported in`: the release of a
report; others were not examined. `read in`: the code of these releases was read for this project.
"""

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


class KnownBadRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One row: these versions, with these features in use, do this."""

    id: str
    packages: tuple[str, ...]
    """Any of these; names as on the package index."""
    versions: str
    """Specifier (PEP 440); pre-releases count."""
    bound: Bound
    severity: Literal["error", "warning", "info"]
    failure_modes: tuple[str, ...]
    causes: tuple[str, ...]
    summary: str
    """What goes wrong, as a clause without a full stop."""
    remedy: str
    links: tuple[str, ...]
    """owner/repository#number."""
    note: str | None = None
    """What is not known of the range, as sentences."""
    engine: str | None = None
    """Only where this engine serves; `None`: whatever serves."""
    upgrade: str | None = None
    """First version known to be good, where one is."""
    edit: str | None = None
    """Engine flag that avoids it, where one does."""
    when: dict[str, Any] = msgspec.field(default_factory=dict)
    """Feature -> value, list of values, or `operator value`; all must hold."""
    installed: str | None = None
    """Name and version of the package that matched; filled in when the table is matched."""

    def applies(self, features: Mapping[str, Any]) -> bool | None:
        """Whether the features hold; `None` where one that decides is not known."""
        answers = [
            holds(condition, features[name]) if name in features else None
            for name, condition in self.when.items()
        ]
        if False in answers:
            return False
        return None if None in answers else True

    def undecided(self, features: Mapping[str, Any]) -> tuple[str, ...]:
        """Features it asks for that are not known."""
        return tuple(name for name in self.when if name not in features)


def holds(condition: Any, value: Any) -> bool:
    """Whether a feature's value meets a row's condition; text is compared without case."""
    if isinstance(condition, list | tuple):
        return any(holds(item, value) for item in condition)
    parsed = _comparison(condition)
    if parsed is not None:
        compare, bound = parsed
        return not isinstance(value, str | bool) and compare(value, bound)
    if isinstance(condition, str) and isinstance(value, str):
        return condition.casefold() == value.casefold()
    return bool(condition == value) and isinstance(condition, bool) == isinstance(value, bool)


def condition_misfits(when: Mapping[str, Any]) -> tuple[str, ...]:
    """What is wrong with a row's conditions."""
    wrong = []
    for name, condition in when.items():
        feature = BY_NAME.get(name)
        if feature is None:
            wrong.append(f"unknown feature {name}")
            continue
        for item in condition if isinstance(condition, list | tuple) else (condition,):
            number = feature.type in (int, float)
            if number and (_comparison(item) is not None or _is_number(item)):
                continue
            if number or not isinstance(item, feature.type):
                wrong.append(f"{name}: {item!r} is no condition on a {feature.type.__name__}")
    return tuple(wrong)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _comparison(condition: Any) -> tuple[Callable[[Any, Any], bool], float] | None:
    if not isinstance(condition, str):
        return None
    match = re.fullmatch(r"(<=|>=|!=|<|>)\s*(-?\d+(?:\.\d+)?)", condition.strip())
    return (_OPERATORS[match[1]], float(match[2])) if match else None
