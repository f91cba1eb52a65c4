"""How each engine reads the drafter's files, as rows: one source for terminal and page."""

from __future__ import annotations

from dataclasses import dataclass

from dflash_doctor.contract.pair import GUESSED, Reading
from dflash_doctor.records import RunRecord
from dflash_doctor.reports.wording import NO_DATA

_NOT_STATED = "not stated"
COLUMNS = ("read by", "taps", "drafted", "causal layers", "rotary base", "part rotated")


@dataclass(frozen=True)
class ReadingTable:
    """Rows for those that would start; the others with the reason.

    The first row is the file as the code that wrote it reads it: what training did, as far as a file can
    tell. `differs` marks cells that are unlike it.
    """

    rows: tuple[tuple[str, ...], ...]
    differs: tuple[tuple[bool, ...], ...]
    refusing: tuple[tuple[str, str], ...]


def reading_table(record: RunRecord) -> ReadingTable | None:
    """The table; `None` where the drafter fills no block or its config was not read."""
    pair = record.contract.pair if record.contract is not None else None
    if pair is None or pair.trained is None or pair.draft_config is None:
        return None
    if not pair.draft_config.is_block_drafter:
        return None
    trained = _trained(pair.trained)
    rows = [
        _row(f"{item.reader} {item.versions}".strip(), item) for item in pair.readings if item.refuses is None
    ]
    differs = [
        tuple(
            column > 0 and trained[column] != _NOT_STATED and cell != trained[column]
            for column, cell in enumerate(row)
        )
        for row in rows
    ]
    refusing = tuple((item.reader, item.refuses) for item in pair.readings if item.refuses is not None)
    return ReadingTable((trained, *rows), ((False,) * len(COLUMNS), *differs), refusing)


def _trained(reading: Reading) -> tuple[str, ...]:
    """Taps that training code would guess from the file are not known to be the trained ones."""
    name, taps, *rest = _row(f"as written ({reading.reader})", reading)
    return (name, _NOT_STATED if reading.taps_from == GUESSED else taps, *rest)


def _row(name: str, reading: Reading) -> tuple[str, ...]:
    taps = ", ".join(map(str, reading.taps)) if reading.taps else (reading.taps_from or "none")
    causal = NO_DATA if reading.causal is None else f"{sum(reading.causal)} of {len(reading.causal)}"
    theta = NO_DATA if reading.rope_theta is None else f"{reading.rope_theta:,.0f}"
    drafted = NO_DATA if reading.num_draft_tokens is None else str(reading.num_draft_tokens)
    part = f"{100 * (reading.partial_rotary_factor or 1):g} %"
    layout = "" if reading.neox is None else (" halves" if reading.neox else " pairs")
    return name, taps, drafted, causal, theta, part + layout
