"""Engine `transformers` keeps the contract of engines."""

from __future__ import annotations

import pytest
from contract import EngineContract


@pytest.mark.engine
class TestTransformers(EngineContract):
    name = "transformers"
