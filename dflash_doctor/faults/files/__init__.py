"""Defects of a pair's files, of what is asked and of how it is served; one file an idea."""
