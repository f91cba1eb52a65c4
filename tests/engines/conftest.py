"""Fixtures of the engine tests; see `engine_arms`."""

from engine_arms import open_arm, recorded_run

__all__ = ["open_arm", "recorded_run"]
