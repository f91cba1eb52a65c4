"""Defects that an engine may have."""
