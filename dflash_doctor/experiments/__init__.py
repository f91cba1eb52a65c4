"""Finding causes by experiment: what is tried, and what was seen when it was."""
