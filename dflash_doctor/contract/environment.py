"""What is installed, pinned and set."""

from __future__ import annotations

import msgspec


class EnvironmentFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Filled by `environment.facts`."""
