"""What an environment check looks at: the facts, or why there are none."""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, skipped
from dflash_doctor.contract.environment import EnvironmentFacts
from dflash_doctor.contract.evidence import ContractEvidence


def environment_view(case: Case) -> tuple[ContractEvidence, EnvironmentFacts] | Outcome:
    """The contract and its environment, or why there is none."""
    contract = case.evidence.contract
    if contract is None or contract.environment is None:
        why = contract.not_collected.get("environment") if contract is not None else None
        return skipped("not checked: installed packages were not looked at" + (f" ({why})" if why else ""))
    return contract, contract.environment
