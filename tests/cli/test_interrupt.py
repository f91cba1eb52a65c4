"""Ctrl-C ends a run in order: the record is written, the engine is gone, the exit status is 130."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from doctor_process import PAIR, require_vllm

from dflash_doctor.runs import read_record


@pytest.mark.engine
def test_diagnose_when_interrupted_then_keeps_what_was_learnt(tmp_path: Path) -> None:
    require_vllm()
    command = [sys.executable, "-m", "dflash_doctor", "diagnose", "--output", "run"]
    command += ["--target", str(PAIR / "target"), "--draft", str(PAIR / "draft")]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    log = tmp_path / "run" / "engine.log"
    for _ in range(3000):
        if log.exists() and "Starting to load model" in log.read_text(errors="replace"):
            break
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors.strip() == "interrupted: what was learnt is in run"
    record, _ = read_record(tmp_path / "run")
    assert record.verdict == "errored"
    assert record.incomplete == "interrupted by the user"
    loading = next(phase for phase in record.phases if phase.name == "loading")
    assert not loading.completed
    children = subprocess.run(["pgrep", "-f", "child_main"], capture_output=True, text=True)
    for pid in children.stdout.split():
        assert f"cwd={tmp_path}" not in f"cwd={Path(f'/proc/{pid}/cwd').resolve()}"
