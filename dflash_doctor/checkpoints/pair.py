"""Reads the files of target and drafter into one contract: configs, headers, vocabulary tables, readings."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dflash_doctor.checkpoints.dialects.catalog import dialect_called
from dflash_doctor.checkpoints.files import UnfitFileError, can_be_opened, exists, shown
from dflash_doctor.checkpoints.gguf_file import LongArray
from dflash_doctor.checkpoints.hub_cache import HUB_ID, cached_snapshot
from dflash_doctor.checkpoints.hub_files import fetch_headers, fetch_small_files, hub_is_allowed
from dflash_doctor.checkpoints.json_file import JsonFile, read_json_object
from dflash_doctor.checkpoints.normal_form import draft_config, target_config
from dflash_doctor.checkpoints.semantics.read import readings
from dflash_doctor.checkpoints.tensor_census import take_census
from dflash_doctor.checkpoints.vocab_map import read_vocab_maps
from dflash_doctor.checkpoints.weights import Weights, read_gguf_weights, read_weights
from dflash_doctor.contract.pair import Checkpoint, PairContract, Problem, Role, Tensor

CONFIG_NAME = "config.json"
MASK_EMBEDDING_NAME = "mask_embedding.pt"
_SIDE_FILES = ("generation_config.json", "tokenizer_config.json", "special_tokens_map.json")
_MAX_SIDE_BYTES = 32 * 1024 * 1024
"""A tokenizer_config.json that lists every added token can have a few megabytes."""
_OF_INTEREST = (
    "embed_tokens.",
    "embed_in.",
    "wte.",
    "lm_head.",
    "embed_out.",
    "token_embd.",
    "output.weight",
)
"""Tensors of a target on which a pair depends."""
_MAX_TENSORS = 20_000
"""No drafter has so many; a header that claims more is kept in part."""


@dataclass(frozen=True)
class _Files:
    """What was read of one model."""

    checkpoint: Checkpoint
    config: JsonFile
    weights: Weights


def read_pair(
    target: str, draft: str | None, *, engine_args: Mapping[str, Any] | None = None
) -> PairContract:
    """Everything the files of a pair say; what cannot be read is among the problems, and nothing raises.

    Args:
        target: a checkpoint folder, a GGUF file, or a hub id (cached, else its small files are fetched).
        draft: the same for the drafter; `None` for methods without one.
        engine_args: `revision` and `speculative_config.revision` choose the snapshots of hub ids.
    """
    revisions = [(engine_args or {}).get(name) for name in ("revision", "speculative_config.revision")]
    target_revision, draft_revision = (item if isinstance(item, str) and item else None for item in revisions)
    # Some loaders make the weights up, or find them elsewhere.
    needs_weights = (engine_args or {}).get("load_format") in (None, "auto")
    of_target = _read(target, "target", target_revision, needs_weights=needs_weights)
    config, problems = target_config(of_target.config)
    target_checkpoint = _with(of_target.checkpoint, problems)
    if draft is None:
        return PairContract(target=target_checkpoint, target_config=config)
    of_draft = _read(draft, "draft", draft_revision, needs_weights=needs_weights)
    drafter, problems = draft_config(of_draft.config)
    maps, map_problems = read_vocab_maps(of_draft.weights.headers)
    trained, by_engine = (None, ()) if drafter is None else readings(drafter, config)
    return PairContract(
        target=target_checkpoint,
        draft=_with(of_draft.checkpoint, (*problems, *map_problems)),
        target_config=config,
        draft_config=drafter,
        vocab_maps=maps,
        census=None if drafter is None else take_census(drafter, of_draft.weights.tensors),
        needs_mask_embedding=drafter is not None and dialect_called(drafter.dialect).needs_mask_embedding,
        trained=trained,
        readings=by_engine,
    )


def locate_checkpoint(name: str, revision: str | None = None) -> Path | None:
    """The folder (or GGUF file) that a name stands for; `None` for a hub id that is not cached here."""
    if _is_here(name):
        return Path(name)
    return cached_snapshot(name, revision)


def _is_here(name: str) -> bool:
    return bool(name) and can_be_opened(Path(name))


def _read(name: str, role: Role, revision: str | None, *, needs_weights: bool) -> _Files:
    path = locate_checkpoint(name, revision)
    is_hub_id = not _is_here(name) and HUB_ID.fullmatch(name) is not None
    online = is_hub_id and hub_is_allowed()
    why = "no snapshot of that id in the hub's cache" if is_hub_id else "no such path"
    if online and (path is None or not exists(path / CONFIG_NAME)):
        try:
            path = fetch_small_files(name, revision)
        except UnfitFileError as error:
            why += f", and it could not be fetched ({shown(str(error))})"
    if path is None:
        problem = Problem(
            severity="info" if is_hub_id else "error",
            file=shown(name, 4096),
            what=f"the {role} is not on this machine",
            seen=why,
            remedy="download it first, or name a folder" if is_hub_id else "name a checkpoint folder",
        )
        checkpoint = Checkpoint(
            role=role, name=name, is_hub_id=is_hub_id, requested_revision=revision, problems=(problem,)
        )
        return _Files(checkpoint, JsonFile(path=Path(name)), Weights())
    is_gguf_file = path.suffix == ".gguf" and not path.is_dir()
    weights = read_gguf_weights(path) if is_gguf_file else read_weights(path)
    if online and weights.format is None:
        _take_remote_headers(weights, name, revision)
    config = _config(path, weights)
    is_checkpoint = not is_hub_id and config.value is not None
    if needs_weights and is_checkpoint and weights.format is None and not weights.problems:
        weights.problems.append(_no_weight_file(path, role))
    tensors = weights.tensors
    checkpoint = Checkpoint(
        role=role,
        name=name,
        folder=str(path),
        is_hub_id=is_hub_id,
        requested_revision=revision,
        revision=path.name if is_hub_id else None,
        config_file=str(config.path),
        lines=config.lines,
        weight_format=weights.format,  # type: ignore[arg-type]
        num_tensors=len(tensors or ()),
        tensors=_kept(tensors, role),
        num_bytes=weights.num_bytes,
        has_mask_embedding=exists(path / MASK_EMBEDDING_NAME),
        sha256=_digest(config, weights),
        problems=(*config.problems, *weights.problems, *_side_problems(path, role)),
    )
    return _Files(checkpoint, config, weights)


def _no_weight_file(path: Path, role: Role) -> Problem:
    return Problem(
        severity="error",
        file=shown(path, 4096),
        what=f"the {role} folder has no weight file",
        seen="no .safetensors, .gguf, .bin or .pt file: no engine can start",
        remedy="copy the weights into the folder, or name the folder that holds them",
    )


def _side_problems(path: Path, role: Role) -> tuple[Problem, ...]:
    """Damaged files beside the config; engines read the target's, and mostly leave the drafter's alone."""
    damaged = [
        problem
        for name in _SIDE_FILES
        for problem in read_json_object(
            path / name, max_bytes=_MAX_SIDE_BYTES, required=False, located=False
        ).problems
        if problem.severity == "error"
    ]
    if role == "draft":
        damaged = [msgspec.structs.replace(problem, severity="warning") for problem in damaged]
    return tuple(damaged)


def _take_remote_headers(weights: Weights, name: str, revision: str | None) -> None:
    """Headers of a hub id whose weights do not lie here."""
    try:
        weights.headers = fetch_headers(name, revision)
        weights.format = "safetensors"
    except UnfitFileError as error:
        weights.problems.append(
            Problem(
                severity="info",
                file=shown(name, 4096),
                what="the headers of the weight files could not be fetched",
                seen=shown(str(error)),
                remedy="download the checkpoint, or name a folder",
            )
        )


def _config(path: Path, weights: Weights) -> JsonFile:
    """config.json, or the metadata of a GGUF file where there is no config."""
    alone = weights.gguf_file == path
    if alone and weights.gguf is None:
        return JsonFile(path)
    if weights.gguf is not None and (alone or not exists(path / CONFIG_NAME)):
        assert weights.gguf_file is not None, "read from it"
        values = {
            key: value for key, value in weights.gguf.metadata.items() if not isinstance(value, LongArray)
        }
        return JsonFile(weights.gguf_file, values)
    return read_json_object(path / CONFIG_NAME)


def _kept(tensors: tuple[Tensor, ...] | None, role: Role) -> tuple[Tensor, ...] | None:
    if tensors is None:
        return None
    if role == "target":
        tensors = tuple(item for item in tensors if any(part in item.name for part in _OF_INTEREST))
    return tensors[:_MAX_TENSORS]


def _digest(config: JsonFile, weights: Weights) -> str | None:
    """SHA-256 over config and headers, in file name order.

    Two checkpoints of the same shape and config but other weights have the same value: it tells
    architectures apart, not trainings.
    """
    if config.value is None:
        return None
    digest = hashlib.sha256(config.text.encode())
    if weights.gguf is not None:
        digest.update(repr((weights.gguf.metadata, weights.gguf.tensors)).encode("utf-8", "replace"))
    for header in weights.headers:
        digest.update(os.fsencode(header.path.name))
        digest.update(header.raw)
    return digest.hexdigest()


def _with(checkpoint: Checkpoint, problems: tuple[Problem, ...]) -> Checkpoint:
    return msgspec.structs.replace(checkpoint, problems=(*checkpoint.problems, *problems))
