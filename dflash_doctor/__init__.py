"""Diagnostics and regression testing for DFlash-style speculative decoding."""

__version__ = "0.1.0"
