"""The exceptions a user can meet, and the exit code each one means.

Every message has three parts: what is wrong, what was seen, what to do::

    DoctorError                     exit 3
     +-- UsageError                 exit 2   a wrong option, path, key or file
     +-- EngineError                exit 3   the engine could not do its work
     |    +-- EngineMissingError    exit 3   the engine is not installed
     |    +-- EngineTimeoutError    exit 3   the engine made no progress
     +-- RecordError                exit 2   a run record that cannot be read

One place turns them into exit codes: `dflash_doctor.cli.main` (and, for pytest, the plugin).
"""

from __future__ import annotations

EXIT_PASSED = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_NO_VERDICT = 3
EXIT_INTERRUPTED = 130


class DoctorError(Exception):
    """Something the user has to know, said in three parts.

    Args:
        what: what is wrong, one clause.
        seen: what was observed: values, units, file and field.
        remedy: what to do about it.
    """

    exit_code = EXIT_NO_VERDICT

    def __init__(self, what: str, *, seen: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.seen = seen
        self.remedy = remedy

    def __str__(self) -> str:
        parts = [self.what]
        if self.seen:
            parts.append(f"  seen: {self.seen}")
        if self.remedy:
            parts.append(f"  do:   {self.remedy}")
        return "\n".join(parts)


class UsageError(DoctorError):
    """A wrong option, path, key or input file."""

    exit_code = EXIT_USAGE


class RecordError(UsageError):
    """A run record or trace file that cannot be read."""


class EngineError(DoctorError):
    """The engine could not be started or died at work."""


class EngineMissingError(EngineError):
    """The engine asked for is not installed."""


class EngineTimeoutError(EngineError):
    """The engine made no progress for longer than the watchdog allows."""
