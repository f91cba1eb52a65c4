"""Knobs of the drafter that may be set wrong."""
