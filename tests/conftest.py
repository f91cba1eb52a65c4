"""Shared by the whole suite: no timed assertions, and the engine's quiet settings."""

from __future__ import annotations

from hypothesis import settings

# Machines are shared and noisy: a slow example is no failure.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")
