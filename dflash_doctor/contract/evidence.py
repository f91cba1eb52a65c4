"""What files, packages and settings say of a pair before anything is started: frozen plain data."""

from __future__ import annotations

from typing import Any

import msgspec

from dflash_doctor.contract.environment import EnvironmentFacts
from dflash_doctor.contract.templates import TemplateComparison
from dflash_doctor.contract.tokenizers import TokenizerComparison


class ContractEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The static side of a run. A part is `None` where nobody looked."""

    served_by: str
    """Engine whose reading of the checkpoint is judged."""
    engine_version: str | None = None
    """Of that engine, where it is installed here."""
    engine_args: dict[str, Any] = msgspec.field(default_factory=dict)
    thinking: str = "off"
    tokenizers: TokenizerComparison | None = None
    templates: TemplateComparison | None = None
    environment: EnvironmentFacts | None = None
