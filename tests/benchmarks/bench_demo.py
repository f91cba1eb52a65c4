"""The README's example: the demo's run with relative paths, as the terminal shows it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def main() -> None:
    """Print the report as a Markdown code block."""
    pair = Path("fixtures") / "tiny_pair"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dflash_doctor", "diagnose", "--output", folder]
        command += ["--target", str(pair / "target"), "--draft", str(pair / "draft")]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    # The last lines name the run and its folder, which are others every time.
    text = done.stdout[: done.stdout.rindex("\nrun ")].rstrip()
    sys.stdout.write(f"```text\n{text}\n```\n")


if __name__ == "__main__":
    main()
