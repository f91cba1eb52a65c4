"""A hosted engine answers like one in this process, and no way of dying takes the doctor with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dflash_doctor.engines.base import Continuation, Conversation, EngineOptions, Sampling, TokenizedPrompt
from dflash_doctor.engines.child import HostedEngine
from dflash_doctor.errors import EngineError, EngineTimeoutError, UsageError
from dflash_doctor.hosting import process

BUILDER = "misbehaving_engine:build_engine"
PROMPT = TokenizedPrompt(prompt_id="p", category="c", token_ids=(1, 2))

Start = Callable[..., HostedEngine]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Start]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    started: list[HostedEngine] = []

    def starter(target: str, **options: object) -> HostedEngine:
        log = str(tmp_path / "engine.log")
        engine = HostedEngine.start(
            "misbehaving",
            BUILDER,
            EngineOptions(target=target, log_path=log, **options),  # type: ignore[arg-type]
        )
        started.append(engine)
        return engine

    yield starter
    for engine in started:
        engine.close()


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pid: int) -> bool:
    for _ in range(100):
        if not is_running(pid):
            return True
        time.sleep(0.1)
    return False


def test_hosted_engine_when_asked_then_answers_like_the_engine(start: Start) -> None:
    engine = start("well")
    seen: list[tuple[int, int]] = []
    generation = engine.generate(
        [PROMPT], Sampling(max_tokens=9), capture=True, on_progress=lambda *now: seen.append(now)
    )
    assert generation.requests[0].output_ids == (9,)
    assert generation.requests[0].text == "\x00</script>"
    assert generation.captured
    assert seen == [(1, 1)]
    assert engine.render([Conversation(prompt="abc")], thinking="off") == ((3, 3),)
    assert engine.token_texts([5, 7]) == {5: "<5>", 7: "<7>"}
    assert engine.special_token_ids() == {"<think>": 4}
    assert engine.chat_template() is None
    assert engine.score([Continuation(prefix_ids=(1,), token_ids=(2, 3))]) == ((-2.0, -3.0),)
    assert engine.describe().live["nested"] == {"a": [1, None]}
    assert engine.describe().live["pid"] != os.getpid()
    assert engine.capabilities.level == "token"


def test_hosted_engine_when_closed_then_ends_the_child_and_refuses_more(start: Start) -> None:
    engine = start("well")
    pid = engine.describe().live["pid"]
    engine.close()
    engine.close()
    assert not is_running(pid)
    with pytest.raises(EngineError, match="is closed"):
        engine.describe()


def test_hosted_engine_when_it_raises_our_error_then_the_kind_and_parts_arrive(start: Start) -> None:
    with pytest.raises(UsageError) as raised:
        start("refuses")
    assert (raised.value.what, raised.value.seen, raised.value.remedy) == (
        "no such argument",
        "foo=1",
        "drop it",
    )
    with pytest.raises(EngineError, match="no scores"):
        start("cannot-score").score([])


def test_hosted_engine_when_it_cannot_start_then_the_reason_is_in_the_message(start: Start) -> None:
    with pytest.raises(EngineError, match="failed to start") as raised:
        start("cannot-start")
    assert "ValueError: expected 384 features but received 256" in raised.value.seen


def test_hosted_engine_when_a_call_fails_then_the_engine_can_be_asked_again(start: Start) -> None:
    engine = start("fails")
    with pytest.raises(EngineError, match="failed to generate"):
        engine.generate([PROMPT], Sampling(), capture=False)
    assert engine.describe().name == "misbehaving"


@pytest.mark.parametrize(
    ("target", "how"),
    [("is-killed", "killed by SIGKILL (out of memory is the usual reason)"), ("exits", "exit status 7")],
)
def test_hosted_engine_when_it_dies_then_the_message_says_how(start: Start, target: str, how: str) -> None:
    engine = start(target)
    with pytest.raises(EngineError, match="died while asked to generate") as raised:
        engine.generate([PROMPT], Sampling(), capture=False)
    assert how in raised.value.seen
    if target == "is-killed":
        assert "CUDA out of memory" in raised.value.seen


@pytest.mark.parametrize(("target", "call"), [("hangs-at-start", "start"), ("hangs", "generate")])
def test_hosted_engine_when_it_hangs_then_the_watchdog_ends_it(start: Start, target: str, call: str) -> None:
    with pytest.raises(EngineTimeoutError, match=f"hung while asked to {call}"):  # noqa: PT012
        engine = start(target, start_timeout_s=3.0, stall_timeout_s=1.0)
        engine.generate([PROMPT], Sampling(), capture=False)


def test_hosted_engine_when_it_is_slow_but_alive_then_the_watchdog_waits(start: Start) -> None:
    engine = start("is-slow-but-alive", stall_timeout_s=1.5)
    assert engine.generate([PROMPT], Sampling(), capture=False, on_progress=lambda *_: None).requests


def test_hosted_engine_when_closed_then_what_the_engine_started_ends_too(
    start: Start, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    engine = start("leaves-a-process", draft=str(pid_file))
    pid = int(pid_file.read_text())
    assert is_running(pid)
    engine.close()
    assert wait_until_gone(pid)


def test_hosted_engine_when_it_will_not_close_then_it_is_killed(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_CLOSE_GRACE_S", 0.5)
    engine = start("will-not-close")
    pid = engine.describe().live["pid"]
    engine.close()
    assert wait_until_gone(pid)


def test_hosted_engine_when_the_doctor_is_killed_then_the_child_ends(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
from dflash_doctor.engines.base import EngineOptions
from dflash_doctor.engines.child import HostedEngine
options = EngineOptions(target="leaves-a-process", draft={str(pid_file)!r})
engine = HostedEngine.start("m", {BUILDER!r}, options)
print(engine.describe().live["pid"], flush=True)
time.sleep(600)
"""
    environment = dict(os.environ, PYTHONPATH=str(Path(__file__).parent))
    doctor = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert doctor.stdout is not None
    child_pid = int(doctor.stdout.readline())
    doctor.send_signal(signal.SIGKILL)
    doctor.wait()
    assert wait_until_gone(child_pid)
    assert wait_until_gone(int(pid_file.read_text()))
