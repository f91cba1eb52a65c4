"""Tells names and values that look like a secret, so that none is printed or written down."""

from __future__ import annotations

import re

HIDDEN = "(hidden: it looks like a secret)"

_NAME = re.compile(
    r"TOKEN(?!IZER|S_)|KEY(?!_?VALUE)|SECRET|PASSW|PASSPHRASE|AUTH|CREDENTIAL|COOKIE|SIGNATURE|PRIVATE", re.I
)
_VALUE = re.compile(
    r"""
      \b(?:hf|sk|pk|rk|gh[pousr]|github_pat|glpat|xox[abeoprs]|pypi|npm|nvapi|r8|gsk|dckr_pat)[-_][\w-]{8,}
    | \b(?:AKIA|ASIA)[0-9A-Z]{12,}
    | \bAIza[\w-]{20,}
    | \bbearer\s+\S{6,} | \bbasic\s+[\w+/]{16,}
    | \w://[^\s/@]*:[^\s/@]+@
    | \w://[^\s/:@]{16,}@
    | \beyJ[\w-]{8,}\.[\w-]{8,}
    | [?&;](?:token|key|api[_-]?key|access[_-]?key|secret|sig|signature|password|auth)=[^&\s]+
    | \b(?:token|api[_-]?key|secret|password|passwd)\s*[=:]\s*\S{4,}
    | -----BEGIN
    """,
    re.IGNORECASE | re.VERBOSE,
)


def is_secret_name(name: str) -> bool:
    """Whether a variable called so probably holds a secret."""
    return _NAME.search(name) is not None


def is_secret_value(value: str) -> bool:
    """Whether a value has the shape of an access token, or carries one."""
    return _VALUE.search(value) is not None


def shown(value: str) -> str:
    """The value, or a note in its place where it looks like a secret."""
    return HIDDEN if is_secret_value(value) else value
