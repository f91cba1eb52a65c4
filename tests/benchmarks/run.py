"""Runs every benchmark and writes its table into the README, between the markers that name it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from machine import machine  # noqa: E402
from readme_blocks import README, replace_block  # noqa: E402

BENCHMARKS = {
    "demo": "bench_demo.py",
    "bench-capture": "bench_capture.py",
    "bench-commands": "bench_commands.py",
    "bench-check": "bench_check.py",
    "bench-report": "bench_report.py",
    "selftest": "bench_selftest.py",
}


def main() -> None:
    """Run those named on the command line, or all."""
    environment = dict(os.environ, PYTHONPATH=str(HERE.parent), VLLM_LOGGING_LEVEL="ERROR")
    for name in sys.argv[1:] or BENCHMARKS:
        command = [sys.executable, str(HERE / BENCHMARKS[name])]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        # An engine may print lines of its own before the table or the example.
        table = re.split(r"^(?=\||```)", done.stdout, maxsplit=1, flags=re.MULTILINE)[-1].strip()
        text = replace_block(README.read_text(encoding="utf-8"), name, f"{table}\n\nMachine: {machine()}.")
        README.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}\n\n{table}\n\n")


if __name__ == "__main__":
    main()
