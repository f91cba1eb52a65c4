"""What the chat templates of target and drafter render."""

from __future__ import annotations

import msgspec


class TemplateComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Filled by `checkpoints.template_parity`."""
