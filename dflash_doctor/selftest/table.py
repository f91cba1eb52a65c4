"""The results as tables: how often the cause was named, what was taken for what, false alarms, time."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median

from dflash_doctor.selftest.base import SelftestResult


def summary_table(results: Sequence[SelftestResult]) -> str:
    """Accuracy by place of the fault, as Markdown."""
    faults = [item for item in results if not item.case.is_control]
    controls = [item for item in results if item.case.is_control]
    rows = ["| faults in | cases | named first | among the first two | proven by experiment | median time |"]
    rows.append("|---|---|---|---|---|---|")
    places = list(dict.fromkeys(item.case.place for item in faults))
    for label, members in (
        *((place, [item for item in faults if item.case.place == place]) for place in places),
        ("**all**", faults),
    ):
        if members:
            rows.append(_summary_row(label, members))
    if controls:
        alarms = [item for item in controls if not item.is_right]
        low, high = rate_interval(len(alarms), len(controls))
        rows += [
            "",
            f"False alarms on healthy controls: {len(alarms)} of {len(controls)} "
            f"[{100 * low:.0f} %, {100 * high:.0f} %].",
        ]
    return "\n".join(rows)


def _summary_row(label: str, members: Sequence[SelftestResult]) -> str:
    first = sum(item.is_right for item in members)
    two = sum(item.is_right or item.is_in_top_2 for item in members)
    proven = sum(item.is_right and item.has_experiment for item in members)
    low, high = rate_interval(first, len(members))
    return (
        f"| {label} | {len(members)} | {100 * first / len(members):.0f} % "
        f"[{100 * low:.0f}, {100 * high:.0f}] | {100 * two / len(members):.0f} % | "
        f"{proven} of {first} | {median(item.duration_s for item in members):.0f} s |"
    )


def rate_interval(hits: int, count: int) -> tuple[float, float]:
    """95 % interval of a rate (Wilson 1927)."""
    if count == 0:
        return 0.0, 1.0
    z = 1.959963984540054
    rate, squared = hits / count, z * z / count
    middle = (rate + squared / 2) / (1 + squared)
    reach = z * math.sqrt(rate * (1 - rate) / count + squared / (4 * count)) / (1 + squared)
    # Rounding must not push a bound past the rate it surrounds.
    return max(0.0, min(rate, middle - reach)), min(1.0, max(rate, middle + reach))


def confusion_table(results: Sequence[SelftestResult]) -> str:
    """Each right cause with what was named first for it, as Markdown; controls are the last row."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for item in results:
        named = "(could not run)" if item.error else item.named[0][0] if item.named else "(nothing)"
        if item.case.is_control:
            counts["(healthy)"][named if not item.is_right else "(nothing)"] += 1
        else:
            counts[item.case.causes[0]]["✓" if item.is_right else named] += 1
    rows = ["| cause put in | named first |", "|---|---|"]
    for cause in sorted(counts, key=lambda name: (name == "(healthy)", name)):
        told = ", ".join(f"{name} {count}" for name, count in counts[cause].most_common())
        rows.append(f"| {cause} | {told} |")
    return "\n".join(rows)


def misses(results: Sequence[SelftestResult]) -> list[str]:
    """A line for each case that went wrong."""
    lines = []
    for item in results:
        if item.is_right:
            continue
        case = item.case
        named = ", ".join(f"{name} {confidence:.2f}" for name, confidence in item.named[:3]) or "nothing"
        wanted = " or ".join(case.causes) or "nothing"
        said = item.error.splitlines()[0] if item.error else f"named {named}"
        lines.append(
            f"{case.name} on {case.pair.name}, seed {case.seed} ({item.detail}): {said}; wanted {wanted}"
        )
    return lines
