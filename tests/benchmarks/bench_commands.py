"""Cold time of the commands that need no engine: whole processes, from start to exit."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

NUM_RUNS = 15
COMMANDS = (["--help"], ["explain", "DF301"], ["explain"], ["env", "--settings"])


def seconds(arguments: list[str]) -> list[float]:
    """Wall seconds of each run; the first is a warm-up of the disk cache and is dropped."""
    found = []
    for _ in range(NUM_RUNS + 1):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "dflash_doctor", *arguments], capture_output=True, check=True)
        found.append(time.perf_counter() - began)
    return found[1:]


def main() -> None:
    """Print the Markdown table."""
    rows = ["| command | median | fastest |", "|---|---|---|"]
    for arguments in COMMANDS:
        times = seconds(arguments)
        shown = f"`dflash-doctor {' '.join(arguments)}`"
        rows.append(f"| {shown} | {statistics.median(times):.3f} s | {min(times):.3f} s |")
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
