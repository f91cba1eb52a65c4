"""Verification is set to keep tokens that the target would not have said, or is simulated

## What it checks

Engine arguments and environment variables that make acceptance lossy or pretend it: synthetic or relaxed
rejection in vLLM, acceptance thresholds below 1 and simulated lengths in SGLang, a drafter mixed into the
target's distribution in Transformers.

## Why it matters

Acceptance looks splendid and says nothing of the drafter; with lossy rules the output is no longer the
target's own. The simulation switches exist for speed tests and get left on (sgl-project/sglang#31603).

## Example

    DF126 acceptance is simulated
      seen:     SGLANG_SIMULATE_ACC_LEN=4 (environment)

## What to do

Remove the setting. For a pure speed test keep it and do not report acceptance.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.contract.evidence import ContractEvidence
from dflash_doctor.records import Finding

_LOSSY_METHODS = {"synthetic": "acceptance is simulated", "fly": "verification is relaxed"}
_SIMULATING_VARIABLES = ("SGLANG_SIMULATE_ACC_LEN", "SGLANG_SIMULATE_ACC_METHOD", "SIMULATE_ACC_LEN")
_SIMULATING_ARGUMENTS = (
    "speculative_config.synthetic_acceptance_rates",
    "speculative_config.synthetic_acceptance_length",
)
_THRESHOLDS = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")


def judge(case: Case) -> Outcome:
    """Look through arguments and variables."""
    contract = case.evidence.contract
    if contract is None:
        return skipped("not checked: settings were not collected")
    findings = [_finding(message, seen, edit) for message, seen, edit in _found(contract)]
    return settled(findings, compared=["verification is exact by every setting that was given"])


def _found(contract: ContractEvidence) -> list[tuple[str, str, str | None]]:
    """What is lossy, how it was set, and how to unset it."""
    given = contract.engine_args
    found: list[tuple[str, str, str | None]] = []
    method = given.get("speculative_config.rejection_sample_method")
    if method in _LOSSY_METHODS:
        found.append(
            (
                _LOSSY_METHODS[method],
                f"speculative_config.rejection_sample_method={method} (engine argument)",
                "--engine-arg speculative_config.rejection_sample_method=standard",
            )
        )
    for name in _SIMULATING_ARGUMENTS:
        if given.get(name) is not None:
            found.append(("acceptance is simulated", f"{name}={given[name]} (engine argument)", None))
    for name in _THRESHOLDS:
        value = given.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value < 1:
            found.append(
                (
                    "tokens are kept that the target would not have said",
                    f"{name}={value:g} (engine argument)",
                    f"--engine-arg {name}=1.0",
                )
            )
    weight = given.get("assistant_ensemble_weight")
    if isinstance(weight, int | float) and 0 < weight < 1:
        found.append(
            (
                "the drafter is mixed into the target's distribution",
                f"assistant_ensemble_weight={weight:g} (engine argument)",
                None,
            )
        )
    for name in _SIMULATING_VARIABLES:
        value = contract.variables.get(name)
        if value not in (None, "", "0", "-1"):
            found.append(("acceptance is simulated", f"{name}={value} (environment)", f"unset {name}"))
    return found


def _finding(message: str, observed: str, edit: str | None) -> Finding:
    return Finding(
        code="DF126",
        severity="error",
        message=message,
        observed=observed,
        expected="exact verification",
        remedy="remove the setting; for a pure speed test keep it and do not report acceptance",
        edit=edit,
        causes=("lossy-acceptance-configured",),
    )
