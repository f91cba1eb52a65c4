"""What the installed engines register: asked from themselves on request, else read in their source."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from dflash_doctor.contract.environment import RegistryFacts
from dflash_doctor.environment.answers import keep, key_of, recall
from dflash_doctor.environment.installed import ENGINES, Distribution, engine_of
from dflash_doctor.environment.source_registry import read_registry
from dflash_doctor.environment.time_limited import run_limited

PROBE_TIME_LIMIT_S = 180.0

_VLLM = """
import typing
from vllm.plugins import load_general_plugins
load_general_plugins()
from vllm.config import speculative
from vllm.model_executor.models import registry
names = list(registry.ModelRegistry.get_supported_archs())
known = set(registry._VLLM_MODELS)
def flat(item):
    inner = typing.get_args(item)
    return [text for part in inner for text in flat(part)] if inner else [item]
answer = {
    "methods": list(dict.fromkeys(flat(speculative.SpeculativeMethod))),
    "architectures": names,
    "draft_architectures": [
        name for name in names if name in registry._SPECULATIVE_DECODING_MODELS or name not in known
    ],
}
"""
_SGLANG = """
from sglang.srt.models.registry import ModelRegistry
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
names = list(ModelRegistry.get_supported_archs())
import re
drafts = re.compile("dflash|dspark|eagle|mtp|nextn|draft|assistant|lilicorr|xpress|medusa", re.I)
answer = {
    "methods": [item.name for item in SpeculativeAlgorithm if item.name != "NONE"],
    "architectures": names,
    "draft_architectures": [name for name in names if drafts.search(name)],
}
"""
_TRANSFORMERS = """
from transformers.generation import candidate_generator as made
known = {"DFlashTokenCandidateGenerator": "dflash", "AssistedCandidateGenerator": "draft_model",
         "PromptLookupCandidateGenerator": "ngram"}
import transformers
drafts = [name for name in dir(transformers) if name.endswith("AssistantModel")]
answer = {
    "methods": [method for name, method in known.items() if hasattr(made, name)],
    "architectures": [],
    "draft_architectures": drafts,
}
"""
_QUESTIONS = {"vllm": _VLLM, "sglang": _SGLANG, "transformers": _TRANSFORMERS}
_TELL = "\nimport json, sys\nopen(sys.argv[1], 'w').write(json.dumps(answer))\n"
_QUIET = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
}


class _Answer(msgspec.Struct, frozen=True):
    methods: tuple[str, ...]
    architectures: tuple[str, ...]
    draft_architectures: tuple[str, ...]


def registries(
    found: Mapping[str, Distribution], *, probe: bool = False, cache: Path | None = None
) -> tuple[RegistryFacts, ...]:
    """What every installed engine registers.

    Args:
        found: installed packages by name.
        probe: import each engine in a process of its own and ask it (seconds each); the answer is kept.
            Else an answer that was kept is taken, and where there is none the engine's source is read.
        cache: folder of kept answers; the user's by default.
    """
    known = []
    for engine in ENGINES:
        there = engine_of(engine, dict(found))
        if there is None:
            continue
        name, item = there
        key = key_of("registry", engine, name, item.stamp)
        if probe:
            facts = probe_registry(engine, item.version)
            if facts.error is None:
                keep("registry", key, facts, folder=cache)
        else:
            facts = _kept(key, cache) or read_registry(engine, item.root, item.version)
        known.append(facts)
    return tuple(known)


def probe_registry(
    engine: str, version: str, *, question: str | None = None, time_limit_s: float = PROBE_TIME_LIMIT_S
) -> RegistryFacts:
    """Import the engine in a process of its own and ask its registry; never raises.

    Args:
        engine: a key of `ENGINES`.
        version: of the installed package, for the record.
        question: the program that asks; the engine's own by default.
        time_limit_s: seconds the process may take.
    """
    script = (question or _QUESTIONS[engine]) + _TELL
    with tempfile.TemporaryDirectory(prefix="dflash-doctor-") as folder:
        path = Path(folder) / "answer.json"
        done = run_limited(
            [sys.executable, "-c", script, str(path)], time_limit_s=time_limit_s, environment=_QUIET
        )
        try:
            answer = msgspec.json.decode(path.read_bytes(), type=_Answer)
        except (OSError, msgspec.DecodeError, RecursionError):
            if done.timed_out:
                why = f"it did not answer within {time_limit_s:g} s"
            elif done.signal_name is not None:
                why = f"it crashed ({done.signal_name})"
            else:
                why = done.last_line[:300] or f"exit status {done.code}"
            return RegistryFacts(engine=engine, version=version, probed=True, error=why)
    return RegistryFacts(
        engine=engine,
        version=version,
        probed=True,
        methods=answer.methods,
        draft_architectures=answer.draft_architectures,
        architectures=answer.architectures,
    )


def _kept(key: str, cache: Path | None) -> RegistryFacts | None:
    try:
        return msgspec.convert(recall("registry", key, folder=cache), RegistryFacts)
    except msgspec.ValidationError:
        return None
