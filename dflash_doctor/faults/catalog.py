"""The faults and controls, one line each, with the causes that a right diagnosis names first.

Adding one is a function in a file of its idea, a line here, and a test. Several causes stand where no
observation of the pair can tell them apart. Defects of the live engine come from `shims/catalog.py`.
"""

from __future__ import annotations

import hashlib
import importlib
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from dflash_doctor.errors import UsageError
from dflash_doctor.faults.base import Injector, Place, Specimen
from dflash_doctor.faults.shims.catalog import ENGINE_DEFECTS, REPAIR_CONTEXT_KEY_NORM

_PACKAGE = "dflash_doctor.faults.files"
_TAPS = "target-layer-ids-shifted"
_HEAD = "target-head-not-shared"
_SCALE = "embedding-scale-missing"
_UNLOADED = "draft-weights-not-loaded"
_K = "num-speculative-tokens-exceeds-block"


@dataclass(frozen=True)
class FaultEntry:
    """A fault by name; a control has no causes."""

    name: str
    function: str
    """`module:function` below `faults.files`; empty for a defect of the live engine."""
    place: Place
    causes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The first line of its function's docstring, or of the engine defect."""
        if not self.function:
            return next(item.summary for item in ENGINE_DEFECTS if item.name == self.name)
        return (_function(self).__doc__ or "").splitlines()[0]


FILE_FAULTS: tuple[FaultEntry, ...] = (
    FaultEntry("taps-shifted", "taps:shifted", "config", (_TAPS,)),
    FaultEntry("tap-moved", "taps:one_moved", "config", (_TAPS,)),
    FaultEntry("tap-blocks-permuted", "taps:blocks_permuted", "weights", (_TAPS,)),
    FaultEntry("tap-out-of-range", "taps:out_of_range", "config", ("target-layer-ids-out-of-range",)),
    FaultEntry("mask-special", "mask:special", "config", ("mask-token-wrong",)),
    FaultEntry("mask-ordinary", "mask:ordinary", "config", ("mask-token-wrong",)),
    FaultEntry("mask-last-row", "mask:last_row", "config", ("mask-token-wrong",)),
    FaultEntry("theta-changed", "rotary:base_changed", "config", ("rotary-theta",)),
    FaultEntry("theta-near", "rotary:base_near", "config", ("rotary-theta",)),
    FaultEntry("theta-lost", "rotary:base_lost", "config", ("rotary-theta",)),
    FaultEntry("rotary-interleaved", "rotary:interleaved", "config", ("rotary-layout",)),
    FaultEntry("rotary-partial", "rotary:partial", "config", ("rotary-partial-factor",)),
    FaultEntry("causal", "attention:causal", "config", ("causal-flag",)),
    FaultEntry("window-lost", "attention:window_lost", "config", ("sliding-window-ignored",)),
    FaultEntry("window-shrunk", "attention:window_shrunk", "config", ("sliding-window-ignored",)),
    FaultEntry("window-added", "attention:window_added", "config", ("sliding-window-ignored",)),
    FaultEntry("head-random", "tables:head_random", "weights", (_HEAD,)),
    FaultEntry("head-rolled", "tables:head_rolled", "weights", (_HEAD, "draft-vocab-map-broken")),
    FaultEntry("embedding-scaled", "tables:embedding_scaled", "weights", (_SCALE,)),
    FaultEntry("embedding-random", "tables:embedding_random", "weights", (_SCALE, _UNLOADED)),
    FaultEntry("vocab-map-zero", "tables:map_zero", "weights", ("draft-vocab-map-broken",)),
    FaultEntry("vocab-map-shuffled", "tables:map_shuffled", "weights", ("draft-vocab-map-broken",)),
    FaultEntry("tensor-missing", "weights:tensor_missing", "weights", (_UNLOADED,)),
    FaultEntry("layer-missing", "weights:layer_missing", "config", (_UNLOADED,)),
    FaultEntry("tensor-zero", "weights:tensor_zero", "weights", (_UNLOADED,)),
    FaultEntry("layers-swapped", "weights:layers_swapped", "weights", ("draft-layers-reordered",)),
    FaultEntry(
        "drafter-of-another-target",
        "weights:of_another_target",
        "weights",
        ("wrong-drafter-for-target", _UNLOADED),
    ),
    FaultEntry("k-beyond-block", "serving:k_beyond_block", "settings", (_K,)),
    FaultEntry("thinking-on", "serving:thinking_on", "traffic", ("thinking-mode-mismatch",)),
    FaultEntry("draft-length-short", "serving:draft_length_short", "config", ("draft-max-length",)),
    FaultEntry("tokens-swapped", "pairing:tokens_swapped", "tokenizer", ("tokenizer-conflict",)),
    FaultEntry("template-changed", "pairing:template_changed", "template", ("chat-template-mismatch",)),
)  # fmt: skip

ENGINE_FAULTS: tuple[FaultEntry, ...] = tuple(
    FaultEntry(item.name, "", "engine", item.causes) for item in ENGINE_DEFECTS
)

CONTROLS: tuple[FaultEntry, ...] = (
    FaultEntry("untouched", "serving:untouched", "settings"),
    FaultEntry("other-prompts", "serving:other_seed", "traffic"),
    FaultEntry("smaller-k", "serving:smaller_k", "settings"),
    FaultEntry("float32", "serving:float32", "settings"),
    FaultEntry("few-sequences", "serving:few_sequences", "settings"),
    FaultEntry("short-answers", "serving:short_answers", "traffic"),
    FaultEntry("hard-slice", "serving:hard_slice", "traffic"),
    FaultEntry("easy-slice", "serving:easy_slice", "traffic"),
    FaultEntry("prefix-cache-off", "serving:prefix_cache_off", "settings"),
    FaultEntry("split-weights", "serving:split_weights", "weights"),
    FaultEntry("reduced-vocabulary", "tables:reduced", "weights"),
    FaultEntry("weak-drafter", "weights:weak", "weights"),
    FaultEntry("rounded-drafter", "weights:rounded", "weights"),
    FaultEntry("target-tuned", "pairing:target_tuned", "weights"),
)
"""A target that was tuned after the drafter is accepted a little less, and nothing is set wrong."""

FAULTS: tuple[FaultEntry, ...] = (*FILE_FAULTS, *ENGINE_FAULTS)


def entry_called(name: str) -> FaultEntry:
    """The fault or control called so.

    Raises:
        UsageError: there is none.
    """
    for entry in (*FAULTS, *CONTROLS):
        if entry.name == name:
            return entry
    raise UsageError(
        "there is no such fault", seen=name, remedy="list them with: dflash-doctor selftest --list"
    )


def prepare(entry: FaultEntry, pair: Path, folder: Path, *, seed: int) -> Specimen:
    """A private copy of a pair with the fault put in.

    Args:
        entry: the fault or control.
        pair: holds `target/`, `draft/` and `prompts.jsonl`.
        folder: gets the copy; must not exist.
        seed: another seed is another size and place of the same fault, the same one the same bytes.

    Raises:
        NotApplicable: this pair cannot have it.
    """
    folder.mkdir(parents=True)
    for name in ("target", "draft"):
        shutil.copytree(pair / name, folder / name)
    shutil.copy(pair / "prompts.jsonl", folder / "prompts.jsonl")
    drawn = hashlib.sha256(f"{entry.name}\0{pair.name}\0{seed}".encode()).digest()
    specimen = Specimen(folder=folder, rng=random.Random(drawn))
    if entry.function:
        _function(entry)(specimen)
    else:
        defect = next(item for item in ENGINE_DEFECTS if item.name == entry.name)
        shim = defect.shim(specimen.rng, specimen.config())
        # The engine's own defect is repaired first, so that the one put in is the only one.
        specimen.shims += [REPAIR_CONTEXT_KEY_NORM, shim]
        specimen.detail = ", ".join(f"{name} {value}" for name, value in shim.parameters.items()) or "as is"
    assert specimen.detail, f"{entry.name} does not say what it did"
    return specimen


def _function(entry: FaultEntry) -> Injector:
    module, _, function = entry.function.partition(":")
    found: Injector = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), function)
    return found
