"""How long the HTML report takes to build, and how large it is, by number of requests."""

from __future__ import annotations

import statistics
import sys
import time

from evidence_factory import make_evidence
from record_factory import make_record

from dflash_doctor.reports.html_page import render

NUM_RUNS = 3


def main() -> None:
    """Print the Markdown table."""
    rows = ["| requests (20 steps each) | judging | building the page | size |", "|---|---|---|---|"]
    for count in (100, 1_000, 10_000):
        evidence = make_evidence(num_requests=count)
        began = time.perf_counter()
        record = make_record(evidence=evidence)
        judging = time.perf_counter() - began
        times, size = [], 0
        for _ in range(NUM_RUNS):
            began = time.perf_counter()
            size = len(render(record, evidence))
            times.append(time.perf_counter() - began)
        rows.append(
            f"| {count:,} | {judging:.2f} s | {statistics.median(times):.2f} s | {size / 1e6:.2f} MB |"
        )
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
