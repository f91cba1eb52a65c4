"""Defects put on a live vLLM engine (V1 runner, 0.32), one file per defect.

Each file has `install(runner, ...)`, which returns a function that takes the defect away again, and
`drawn(rng, draft_config)`, which picks the parameters of one specimen. Nothing here edits a tensor or a
module that target and draft share: copies are edited and swapped in.
"""
