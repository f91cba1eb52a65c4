"""Runs many cases and keeps each result as soon as it is there, so that an interrupted series goes on."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from dflash_doctor import session
from dflash_doctor.errors import UsageError
from dflash_doctor.evidence import Evidence
from dflash_doctor.faults.base import NotApplicable
from dflash_doctor.faults.catalog import CONTROLS, FAULTS, FaultEntry, entry_called
from dflash_doctor.selftest.base import SelftestCase, SelftestResult
from dflash_doctor.selftest.carry_out import carry_out, carry_out_on_texts
from dflash_doctor.settings import Settings

_ON_TEXTS = ("config", "weights")
"""Places whose defects leave the target's texts as they are."""
_NOT_ON_TEXTS = frozenset({"target-tuned", "layer-missing", "tap-out-of-range", "draft-length-short"})
"""Of these places, but the target is another, or only an engine shows it."""

Told = Callable[[SelftestResult, int, int], None]


def cases_of(
    pairs: Sequence[Path], seeds: Sequence[int], *, only: Sequence[str] = (), quick: bool = False
) -> list[SelftestCase]:
    """Every fault and control on every pair with every seed.

    Args:
        pairs: folders with `target/`, `draft/` and `prompts.jsonl`.
        seeds: of size and place.
        only: names of faults; all by default.
        quick: only those that need no engine.

    Raises:
        UsageError: a name is not in the catalog, or nothing is left.
    """
    entries: Sequence[FaultEntry] = [entry_called(name) for name in only] or (*FAULTS, *CONTROLS)
    found = [
        SelftestCase(
            name=entry.name,
            place=entry.place,
            pair=pair,
            seed=seed,
            causes=entry.causes,
            needs_engine=not _is_on_texts(entry),
        )
        for pair in pairs
        for entry in entries
        for seed in seeds
        if not quick or _is_on_texts(entry)
    ]
    if not found:
        raise UsageError(
            "no case is left",
            seen=f"--quick with {', '.join(only)}" if quick else "no pair or no seed",
            remedy="leave --quick out: these faults show on an engine only",
        )
    return found


def _is_on_texts(entry: FaultEntry) -> bool:
    return entry.place in _ON_TEXTS and entry.name not in _NOT_ON_TEXTS


def run_cases(
    cases: Sequence[SelftestCase], *, quick: bool, results_file: Path | None, told: Told
) -> list[SelftestResult]:
    """Carry out the cases that the file does not hold yet.

    Args:
        cases: in order.
        quick: judge on texts of one healthy run per pair; no engine runs the faulty ones.
        results_file: JSON Lines; results in it are kept and not repeated. `None` keeps nothing.
        told: after each case.
    """
    known = {_key(item.case): item for item in _read(results_file)}
    healthy: dict[Path, Evidence] = {}
    results: list[SelftestResult] = []
    for number, case in enumerate(cases, 1):
        result = known.get(_key(case))
        if result is None:
            try:
                if quick:
                    if case.pair not in healthy:
                        healthy[case.pair] = _healthy_run(case.pair)
                    result = carry_out_on_texts(case, healthy[case.pair])
                else:
                    result = carry_out(case)
            except NotApplicable:
                continue
            _append(results_file, result)
        results.append(result)
        told(result, number, len(cases))
    return results


def _healthy_run(pair: Path) -> Evidence:
    with tempfile.TemporaryDirectory(prefix="dflash-selftest-") as folder:
        return session.run(
            Settings(
                target=str(pair / "target"),
                draft=str(pair / "draft"),
                prompts=str(pair / "prompts.jsonl"),
                max_tokens=128,
                max_prompts=100,
                experiments="off",
                output=folder,
            )
        ).evidence


def _key(case: SelftestCase) -> tuple[str, str, int]:
    return case.name, case.pair.name, case.seed


def _read(path: Path | None) -> Iterator[SelftestResult]:
    if path is None or not path.is_file():
        return
    for line in path.read_bytes().splitlines():
        if line.strip():
            yield msgspec.json.decode(line, type=SelftestResult, dec_hook=lambda _, value: Path(value))


def _append(path: Path | None, result: SelftestResult) -> None:
    if path is not None:
        with path.open("ab") as file:
            file.write(msgspec.json.encode(result, enc_hook=str) + b"\n")
