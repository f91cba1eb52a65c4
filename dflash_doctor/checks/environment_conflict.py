"""Installed packages do not work together

## What it checks

Two things. Whether each installed version lies in the range that other installed packages declare for it
(engine packages only). And whether packages with compiled parts (torchvision, torchaudio, torchcodec,
flash-attn, flashinfer, sglang-kernel) can be imported: in a process of its own with a time limit, once per
set of versions. Without `env --probe` only those are tried whose labels do not show that they fit torch. A
package that is missing is no conflict.

## Why it matters

Engines import these unconditionally or choose kernels by what is there. A torchvision built for another torch
stops every start with `operator torchvision::nms does not exist`; a flash-attn for another one ends in an
undefined symbol.

## Example

    DF004 torchvision cannot be imported
      seen:     RuntimeError: operator torchvision::nms does not exist (torchvision 0.26.0, torch 2.13.0+cpu)
      expected: this torchvision was built for another torch
      do:       pip uninstall torchvision, or install the build for this torch

## What to do

Install the builds that belong to the installed torch, or remove what the engine does not need.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled
from dflash_doctor.checks.environment_view import environment_view
from dflash_doctor.contract.environment import EnvironmentFacts, ImportProblem, VersionConflict
from dflash_doctor.records import Finding


def judge(case: Case) -> Outcome:
    """Report what does not import and what lies outside a declared range."""
    view = environment_view(case)
    if isinstance(view, Outcome):
        return view
    _, facts = view
    findings = [_import(item, facts) for item in facts.import_problems]
    findings += [_range(item) for item in facts.version_conflicts]
    compared = []
    if facts.ranges_checked:
        compared.append(f"{facts.ranges_checked} declared version ranges were compared")
    failed = {item.package for item in facts.import_problems}
    works = [name for name in facts.imports_tried if name not in failed]
    if works:
        compared.append(f"{', '.join(works)} can be imported")
    unchecked = []
    if facts.imports_untried:
        unchecked.append(f"whether {', '.join(facts.imports_untried)} can be imported (env --probe tries it)")
    return settled(findings, compared=compared, unchecked=unchecked)


def _import(item: ImportProblem, facts: EnvironmentFacts) -> Finding:
    torch = facts.package("torch")
    with_torch = f", torch {torch.version}" if torch is not None else ""
    return Finding(
        code="DF004",
        severity="error",
        message=f"{item.package} cannot be imported",
        observed=f"{item.error} ({item.package} {item.version}{with_torch})",
        expected=f"a package that loads; {item.meaning}",
        remedy=f"install the build of {item.package} for this torch; remove it if nothing needs it",
        edit=f"pip uninstall {item.package}",
        causes=("environment-conflict",),
    )


def _range(item: VersionConflict) -> Finding:
    return Finding(
        code="DF004",
        severity="warning",
        message=f"{item.package} is not the version that {item.required_by.split(' ')[0]} asks for",
        observed=f"{item.package} {item.version}; {item.required_by} asks for {item.requirement}",
        expected=item.requirement,
        remedy="install a version in the range, or measure that this one works",
        edit=f"pip install '{item.requirement}'",
        causes=("environment-conflict",),
    )
