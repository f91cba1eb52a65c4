"""The doctor's own examination: faults put into the bundled pairs on seeds that nothing was chosen on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def main() -> None:
    """Print the tables; `SELFTEST_ARGUMENTS` chooses other cases, `SELFTEST_RESULTS` another file."""
    results = os.environ.get("SELFTEST_RESULTS", str(ROOT / "build" / "selftest.jsonl"))
    Path(results).parent.mkdir(parents=True, exist_ok=True)
    arguments = os.environ.get("SELFTEST_ARGUMENTS", "--quick --first-seed 101").split()
    command = [sys.executable, "-m", "dflash_doctor", "selftest", "--results", results, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    sys.stdout.write(done.stdout)


if __name__ == "__main__":
    main()
