"""What files, packages and settings say of a pair before anything is started: frozen plain data."""

from __future__ import annotations

from typing import Any

import msgspec

from dflash_doctor.contract.environment import EnvironmentFacts
from dflash_doctor.contract.pair import PairContract
from dflash_doctor.contract.templates import TemplateComparison
from dflash_doctor.contract.tokenizers import TokenFact, TokenizerComparison


class ContractEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The static side of a run. A part is `None` where nobody looked."""

    served_by: str
    """Engine whose reading of the checkpoint is judged."""
    engine_version: str | None = None
    """Of that engine, where it is installed here."""
    engine_args: dict[str, Any] = msgspec.field(default_factory=dict)
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    """Environment variables that steer an engine."""
    method: str = "dflash"
    thinking: str = "off"
    pair: PairContract | None = None
    features: dict[str, Any] = msgspec.field(default_factory=dict)
    """What is in use, by the names of `contract.features`."""
    not_collected: dict[str, str] = msgspec.field(default_factory=dict)
    """Part -> why nobody could look at it."""
    mask_token: TokenFact | None = None
    """What the target's tokenizer says of the drafter's mask id."""
    tokenizers: TokenizerComparison | None = None
    templates: TemplateComparison | None = None
    environment: EnvironmentFacts | None = None

    def without_lists(self) -> ContractEvidence:
        """The same without tensors, key lines and model lists: short enough for a run record."""
        pair, environment = self.pair, self.environment
        if environment is not None:
            environment = environment.without_lists()
        if pair is None:
            return msgspec.structs.replace(self, environment=environment)
        short = {
            role: msgspec.structs.replace(item, tensors=None, lines={})
            for role, item in (("target", pair.target), ("draft", pair.draft))
            if item is not None
        }
        return msgspec.structs.replace(
            self, pair=msgspec.structs.replace(pair, **short), environment=environment
        )
