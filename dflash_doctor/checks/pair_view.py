"""What a pair check looks at: the contract taken apart, with the place of every field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dflash_doctor.checks.base import Case, Outcome, skipped
from dflash_doctor.contract.evidence import ContractEvidence
from dflash_doctor.contract.pair import Checkpoint, DraftConfig, PairContract, Reading, TargetConfig
from dflash_doctor.records import Where

_NESTED = "speculative_config."


@dataclass(frozen=True)
class PairView:
    """Target and drafter as their files and the settings have them."""

    contract: ContractEvidence
    pair: PairContract
    target: Checkpoint
    draft: Checkpoint
    config: DraftConfig
    target_config: TargetConfig | None
    trained: Reading
    """The reading under which the drafter was trained."""
    served: Reading | None
    """The reading of the engine that serves; `None` where the table has no line for it."""

    @property
    def engine(self) -> str:
        """Name of the engine that serves."""
        return self.contract.served_by

    @property
    def others(self) -> tuple[Reading, ...]:
        """Readings of the other engines, of those that would start."""
        return tuple(
            item for item in self.pair.readings if item.reader != self.engine and item.refuses is None
        )

    def in_draft(self, field: str) -> Where:
        """The place of a field of the drafter's config; of one that is not there, the file."""
        return _where(self.draft, self.config.sources.get(field))

    def in_target(self, field: str) -> Where:
        """The place of a field of the target's config."""
        sources = self.target_config.sources if self.target_config is not None else {}
        return _where(self.target, sources.get(field))

    def argument(self, *names: str) -> Any:
        """Value of the first of these engine arguments that was given; `None` without any."""
        given = self.contract.engine_args
        return next((given[name] for name in names if given.get(name) is not None), None)

    def speculative(self, name: str) -> Any:
        """Value of an argument of the nested speculative config."""
        return self.contract.engine_args.get(_NESTED + name)

    def flag(self, *names: str) -> bool:
        """Whether any of these engine arguments is switched on."""
        return any(self.contract.engine_args.get(name) not in (None, False, "", "false", 0) for name in names)


def pair_view(case: Case, *, blocks_only: bool = True) -> PairView | Outcome:
    """The view, or why there is none.

    Args:
        case: what a check may look at.
        blocks_only: whether the check is about drafters that fill a block.
    """
    contract = case.evidence.contract
    if contract is None or contract.pair is None:
        return skipped("not checked: the files of the pair were not read")
    pair = contract.pair
    if pair.draft is None:
        return skipped(f"method {contract.method} has no drafter of its own")
    if pair.draft_config is None or pair.trained is None:
        return skipped("not checked: the drafter's config could not be read")
    if blocks_only and not pair.draft_config.is_block_drafter:
        return skipped(f"a {pair.draft_config.dialect} drafter fills no block")
    return PairView(
        contract=contract,
        pair=pair,
        target=pair.target,
        draft=pair.draft,
        config=pair.draft_config,
        target_config=pair.target_config,
        trained=pair.trained,
        served=pair.reading(contract.served_by),
    )


def _where(checkpoint: Checkpoint, path: str | None) -> Where:
    """A key's line; entries of a list have the line of the list."""
    line, key = None, path
    while key and line is None:
        line = checkpoint.lines.get(key)
        key = key.rpartition(".")[0]
    return Where(file=checkpoint.config_file, field=path, line=line)


def listed(values: tuple[int, ...] | None) -> str:
    """`1, 3, 4`, or `none`."""
    return "none" if values is None else ", ".join(map(str, values))
