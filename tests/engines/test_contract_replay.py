"""Engine `replay` keeps the contract of engines."""

from __future__ import annotations

from contract import EngineContract


class TestReplay(EngineContract):
    name = "replay"
