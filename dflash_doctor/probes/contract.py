"""Collects what files, packages and settings say of a pair. No engine, no torch, no network."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from dflash_doctor.checkpoints.pair import read_pair
from dflash_doctor.checkpoints.template_parity import compare_templates
from dflash_doctor.checkpoints.tokenizer_file import TokenizerFile, read_tokenizer
from dflash_doctor.checkpoints.tokenizer_parity import compare_files
from dflash_doctor.contract.evidence import ContractEvidence
from dflash_doctor.contract.pair import Checkpoint, PairContract
from dflash_doctor.contract.templates import TemplateComparison
from dflash_doctor.contract.tokenizers import TokenFact, TokenizerComparison
from dflash_doctor.environment.devices import ask_driver, gpu_names
from dflash_doctor.environment.facts import environment_facts
from dflash_doctor.environment.snapshot import engine_variables
from dflash_doctor.probes.features import features_of
from dflash_doctor.settings import Settings

_PartT = TypeVar("_PartT")


def collect_contract(
    settings: Settings,
    engine_args: Mapping[str, Any],
    *,
    pair: PairContract | None = None,
    environ: Mapping[str, str] | None = None,
    project_folder: Path | None = None,
) -> ContractEvidence:
    """Everything that can be known before an engine starts; a part that fails leaves the others.

    Args:
        settings: the settings in force, with a target.
        engine_args: engine arguments as parsed.
        pair: what the files say, where somebody has read them.
        environ: the environment; the process's own by default.
        project_folder: whose requirement files say what is pinned; the working folder by default.
    """
    failures: dict[str, str] = {}

    def part(name: str, collect: Callable[[], _PartT]) -> _PartT | None:
        try:
            return collect()
        except Exception as error:
            failures[name] = f"{type(error).__name__}: {error}"
            return None

    if pair is None:
        pair = part(
            "checkpoints", lambda: read_pair(settings.target or "", settings.draft, engine_args=engine_args)
        )
    with ThreadPoolExecutor(max_workers=1) as pool:
        # Templates are rendered by other processes: meanwhile there is time for the rest.
        rendered = pool.submit(part, "chat templates", lambda: _templates(pair))
        read = part("tokenizers", lambda: _target_tokenizer(pair))
        tokenizers = part("tokenizers", lambda: _tokenizers(pair, read))
        mask_token = part("mask token", lambda: _mask_token(pair, read))
        environment = part(
            "environment",
            lambda: environment_facts(
                Path.cwd() if project_folder is None else project_folder,
                lock=Path(settings.environment_lock) if settings.environment_lock else None,
                environ=environ,
            ),
        )
        templates = rendered.result()
    engine = environment.engine(settings.reader) if environment is not None else None
    variables = engine_variables(os.environ if environ is None else environ)
    features = part(
        "features",
        lambda: features_of(
            settings,
            engine_args,
            variables,
            pair,
            installed=[item.name for item in environment.packages] if environment is not None else [],
            # Their files name the GPUs; only their tool tells the generation, and it takes a moment.
            gpus=ask_driver() if gpu_names() else [],
        ),
    )
    return ContractEvidence(
        served_by=settings.reader,
        engine_version=engine.version if engine is not None else None,
        engine_args=dict(engine_args),
        variables=variables,
        features=features or {},
        method=settings.method,
        thinking=settings.thinking,
        pair=pair,
        mask_token=mask_token,
        tokenizers=tokenizers,
        templates=templates,
        environment=environment,
        not_collected=failures,
    )


def _target_tokenizer(pair: PairContract | None) -> TokenizerFile | None:
    folder = _folder(pair.target) if pair is not None else None
    if pair is None or folder is None:
        return None
    return read_tokenizer(folder, num_rows=pair.target_config.vocab_size if pair.target_config else None)


def _tokenizers(pair: PairContract | None, read: TokenizerFile | None) -> TokenizerComparison | None:
    if pair is None or read is None:
        return None
    folder = _folder(pair.draft)
    if folder is None:
        return TokenizerComparison(target=read.facts, unchecked="there is no drafter folder")
    rows = pair.draft_config.vocab_size if pair.draft_config is not None else None
    return compare_files(read, read_tokenizer(folder, num_rows=rows, like=read))


def _templates(pair: PairContract | None) -> TemplateComparison | None:
    if pair is None:
        return None
    target, draft = _folder(pair.target), _folder(pair.draft)
    return compare_templates(target, draft) if target is not None else None


def _mask_token(pair: PairContract | None, read: TokenizerFile | None) -> TokenFact | None:
    """What the target's tokenizer says of the drafter's mask id."""
    config = pair.draft_config if pair is not None else None
    if read is None or config is None or config.mask_token_id is None:
        return None
    return read.describe(config.mask_token_id)


def _folder(checkpoint: Checkpoint | None) -> Path | None:
    """The folder of a checkpoint on this machine; that of a GGUF file is not its own."""
    if checkpoint is None or checkpoint.folder is None or not Path(checkpoint.folder).is_dir():
        return None
    return Path(checkpoint.folder)
