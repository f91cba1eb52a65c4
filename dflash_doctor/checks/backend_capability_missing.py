"""The installed engine lacks the method or the drafter's class

## What it checks

The speculation method and the class that the drafter's config names, against what the installed engine
registers. The registry is the engine's own: read in its files, or, after `dflash-doctor env --probe`, asked
by importing it, plug-ins included. There is no table of versions behind this.

## Why it matters

Public sources disagree on which vLLM has DFlash first (0.20 or 0.22), images ship engines that predate it,
and no SGLang up to 0.5.18 knows DFlash2 (vllm-project/vllm-ascend#8819, NVIDIA-NeMo/Automodel#2913,
NVIDIA/Model-Optimizer#2201). An engine that lacks the class fails after minutes of start-up, or takes the
nearest class that it has.

## Example

    DF001 the installed vllm does not know this drafter's class
      seen:     XPressDraftModel in config.json; vllm 0.32.0 registers 63 drafter classes
      expected: a class such as DFlashDraftModel, DFlash2DraftModel
      do:       install a release that registers XPressDraftModel

## What to do

Install a release that has it and pin that one. `dflash-doctor env` lists what the installed engine
registers.
"""

from __future__ import annotations

from difflib import get_close_matches

from dflash_doctor.checks.base import Case, Outcome, settled, skipped
from dflash_doctor.checks.environment_view import environment_view
from dflash_doctor.contract.environment import RegistryFacts
from dflash_doctor.contract.evidence import ContractEvidence
from dflash_doctor.records import Finding, Where

_SPELLED = {"sglang": {"mtp": "EAGLE", "nextn": "EAGLE", "draft_model": "STANDALONE"}}
"""Methods that an engine spells in another way than vLLM; its capitals aside."""
_PREFIXES = ("", "DFlash", "Eagle3", "Eagle")
"""vLLM puts these before the class that a config names, by method."""
_CONVERTED = ("speculators",)
"""Families whose class name the engine replaces on loading."""


def judge(case: Case) -> Outcome:
    """Look method and class up in the engine's own registry."""
    view = environment_view(case)
    if isinstance(view, Outcome):
        return view
    contract, facts = view
    registry = facts.registry(contract.served_by)
    if registry is None:
        return skipped(f"not checked: {contract.served_by} is not installed here")
    if registry.error is not None:
        return skipped(f"not checked: what {contract.served_by} registers ({registry.error})")
    findings, compared, unchecked = [], [], []
    name = f"{registry.engine} {registry.version or ''}".strip()
    if _has_method(registry, contract.method):
        compared.append(f"{name} has method {contract.method}")
    else:
        findings.append(_no_method(registry, name, contract.method))
    wanted = _drafter_class(contract)
    if wanted is None:
        unchecked.append("the drafter's class")
    elif not registry.architectures:
        compared.append(f"{registry.engine} takes drafters of any class")
    elif any(prefix + wanted in registry.architectures for prefix in _PREFIXES):
        compared.append(f"it registers {wanted}")
    else:
        findings.append(_no_class(registry, name, wanted, contract))
    return settled(findings, compared=compared, unchecked=unchecked)


def _has_method(registry: RegistryFacts, method: str) -> bool:
    spelled = _SPELLED.get(registry.engine, {}).get(method.lower(), method)
    return spelled.lower() in {item.lower() for item in registry.methods}


def _drafter_class(contract: ContractEvidence) -> str | None:
    """The class that the engine will look up; `None` where it does not go by what the config names."""
    config = contract.pair.draft_config if contract.pair is not None else None
    if config is None or config.architecture is None or config.dialect.startswith((*_CONVERTED, "gguf")):
        return None
    return config.architecture


def _no_method(registry: RegistryFacts, name: str, method: str) -> Finding:
    close = get_close_matches(method.lower(), [item.lower() for item in registry.methods], n=3, cutoff=0.5)
    return Finding(
        code="DF001",
        severity="error",
        message=f"the installed {registry.engine} does not know this speculation method",
        observed=f"method {method}; {name} has {', '.join(registry.methods[:12])}"
        + (" ..." if len(registry.methods) > 12 else ""),
        expected="a method of the installed engine" + (f", such as {', '.join(close)}" if close else ""),
        remedy=f"install a release of {registry.engine} that has {method}, or name another method",
        causes=("backend-capability-missing",),
    )


def _no_class(registry: RegistryFacts, name: str, wanted: str, contract: ContractEvidence) -> Finding:
    drafts = registry.draft_architectures
    close = get_close_matches(wanted, drafts, n=2, cutoff=0.5)
    draft = contract.pair.draft if contract.pair is not None else None
    config = contract.pair.draft_config if contract.pair is not None else None
    field = (config.sources if config is not None else {}).get("architecture")
    return Finding(
        code="DF001",
        severity="error",
        message=f"the installed {registry.engine} does not know this drafter's class",
        observed=f"{wanted}; {name} registers {len(drafts)} drafter classes",
        expected=f"a class such as {', '.join(close or drafts[:2])}",
        remedy=f"install a release of {registry.engine} that registers {wanted}",
        where=Where(
            file=draft.config_file if draft is not None else None,
            field=field,
            line=draft.lines.get((field or "").split(".")[0]) if draft is not None else None,
        ),
        causes=("backend-capability-missing",),
    )
