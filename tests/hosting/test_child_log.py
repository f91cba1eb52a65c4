"""Telling lines are the exceptions at the end of a log, whatever stands around them."""

from __future__ import annotations

from pathlib import Path

from dflash_doctor.hosting.child_log import telling_lines

LOG = """INFO 12-01 07:56:06 [core.py:93] Initializing
Traceback (most recent call last):
  File "x.py", line 1, in <module>
    raise ValueError("boom")
\x1b[31mValueError: boom\x1b[0m
(EngineCore pid=1234) RuntimeError: Engine core initialization failed. See root cause above.
(EngineCore pid=1234) ERROR 12-01 08:04:12 [core.py:100] KeyError: 'selector_top_k'
WARNING 12-01 07:56:06 [envs.py:1] An Error happened somewhere in this sentence
"""


def test_telling_lines_when_exceptions_are_logged_then_gives_the_last_ones(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    path.write_text(LOG)
    assert telling_lines(path, most=3) == (
        "ValueError: boom",
        "RuntimeError: Engine core initialization failed. See root cause above.",
        "KeyError: 'selector_top_k'",
    )
    assert telling_lines(path, most=1) == ("KeyError: 'selector_top_k'",)


def test_telling_lines_when_there_is_no_log_then_is_empty(tmp_path: Path) -> None:
    assert telling_lines(tmp_path / "none.log") == ()


def test_telling_lines_when_the_log_is_huge_then_reads_only_its_end(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    with path.open("wb") as file:
        file.truncate(1 << 36)  # sparse: reading it whole would not end
        file.seek(0, 2)
        file.write(b"\nOSError: disk full\n")
    assert telling_lines(path) == ("OSError: disk full",)
