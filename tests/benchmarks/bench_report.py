"""How long the HTML report takes to build, how large it is, and how long a browser needs to open it."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / name) for name in ("", "reports")]

from chromium import Chromium, find_chromium  # noqa: E402
from evidence_factory import make_evidence  # noqa: E402
from record_factory import make_record  # noqa: E402

from dflash_doctor.reports.html_page import render  # noqa: E402

NUM_RUNS = 3
UNPACKED = "return document.querySelectorAll('#rows .row').length;"


def opening_s(page: str) -> list[float] | None:
    """Seconds from opening the page to the first samples in sight; `None` without a browser."""
    program = find_chromium()
    if program is None:
        return None
    times = []
    with tempfile.TemporaryDirectory() as folder:
        browser = Chromium(program, Path(folder))
        try:
            for _ in range(NUM_RUNS):
                began = time.perf_counter()
                browser.open(page)
                assert browser.answer(UNPACKED) > 0
                times.append(time.perf_counter() - began)
        finally:
            browser.close()
    return times


def main() -> None:
    """Print the Markdown table."""
    rows = [
        "| requests (20 steps each) | judging | building the page | size | opening it in Chromium |",
        "|---|---|---|---|---|",
    ]
    for count in (100, 1_000, 10_000):
        evidence = make_evidence(num_requests=count)
        began = time.perf_counter()
        record = make_record(evidence=evidence)
        judging = time.perf_counter() - began
        times, page = [], b""
        for _ in range(NUM_RUNS):
            began = time.perf_counter()
            page = render(record, evidence)
            times.append(time.perf_counter() - began)
        opened = opening_s(page.decode())
        opening = "no data" if opened is None else f"{statistics.median(opened):.2f} s"
        rows.append(
            f"| {count:,} | {judging:.2f} s | {statistics.median(times):.2f} s | {len(page) / 1e6:.2f} MB | "
            f"{opening} |"
        )
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
