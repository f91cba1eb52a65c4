"""What an engine registers, read in its files without importing it: milliseconds instead of seconds.

An engine's registry is plain data in its source: dictionaries of class names, `Literal` types, an
enumeration. Only the statements that hold it are parsed. A test compares this with what the installed
engine answers when it is asked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from dflash_doctor.contract.environment import RegistryFacts

_MAX_BYTES = 8 * 1024 * 1024
_DRAFT_NAME = re.compile(r"dflash|dspark|eagle|mtp|nextn|draft|assistant|lilicorr|xpress|medusa", re.I)


class _Unreadable(Exception):
    """The source is not laid out as known."""


def read_registry(engine: str, root: Path, version: str) -> RegistryFacts:
    """Methods and model classes that the engine under this folder registers; never raises.

    Args:
        engine: `vllm`, `sglang` or `transformers`.
        root: the folder that holds the package (usually site-packages).
        version: of the installed package, for the record.
    """
    try:
        methods, drafts, names = _READERS[engine](root)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError, _Unreadable) as error:
        return RegistryFacts(
            engine=engine, version=version, error=f"its source could not be read: {str(error) or type(error)}"
        )
    return RegistryFacts(
        engine=engine,
        version=version,
        methods=methods,
        draft_architectures=drafts,
        architectures=names,
    )


def _vllm(root: Path) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    models = _source(root / "vllm" / "model_executor" / "models" / "registry.py")
    tables: dict[str, dict[str, None]] = {}
    for name, value in _assignments(models, r"_[A-Z_]+_MODELS"):
        if isinstance(value, ast.Dict):
            tables[name] = dict.fromkeys(_keys(value, tables))
    everything = tables.get("_VLLM_MODELS")
    drafts = tables.get("_SPECULATIVE_DECODING_MODELS")
    if everything is None or drafts is None:
        raise _Unreadable("its model table is not where it is known to be")
    literals = dict(_assignments(_source(root / "vllm" / "config" / "speculative.py"), r"[A-Z]\w+"))
    if "SpeculativeMethod" not in literals:
        raise _Unreadable("its list of speculation methods is not where it is known to be")
    methods = dict.fromkeys(_literal_values(literals["SpeculativeMethod"], literals))
    return tuple(methods), tuple(drafts), tuple(everything)


def _sglang(root: Path) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    info = _source(root / "sglang" / "srt" / "speculative" / "spec_info.py")
    methods = tuple(name for name in _enum_members(info, "SpeculativeAlgorithm") if name != "NONE")
    if not methods:
        raise _Unreadable("its list of speculative algorithms is not where it is known to be")
    names: dict[str, None] = {}
    folder = root / "sglang" / "srt" / "models"
    for file in sorted(folder.glob("*.py")):
        for _, value in _assignments(_source(file), "EntryClass"):
            names |= dict.fromkeys(node.id for node in ast.walk(value) if isinstance(node, ast.Name))
    if not names:
        raise _Unreadable("its models name no entry classes")
    return methods, tuple(name for name in names if _DRAFT_NAME.search(name)), tuple(names)


def _transformers(root: Path) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Its drafters load by module, not by class name: only methods and shipped draft classes are known."""
    generator = _source(root / "transformers" / "generation" / "candidate_generator.py")
    known = {
        "DFlashTokenCandidateGenerator": "dflash",
        "AssistedCandidateGenerator": "draft_model",
        "PromptLookupCandidateGenerator": "ngram",
    }
    methods = tuple(
        method for name, method in known.items() if re.search(rf"^class {name}\b", generator, re.MULTILINE)
    )
    if not methods:
        raise _Unreadable("its candidate generators are not where they are known to be")
    drafts = [
        name
        for file in sorted((root / "transformers" / "models").glob("*_assistant/modeling_*.py"))
        for name in re.findall(r"^class (\w+AssistantModel)\b", _source(file), re.MULTILINE)
    ]
    return methods, tuple(drafts), ()


_READERS = {"vllm": _vllm, "sglang": _sglang, "transformers": _transformers}


def _source(path: Path) -> str:
    if path.stat().st_size > _MAX_BYTES:
        raise _Unreadable(f"{path.name} is larger than any source file")
    return path.read_text(encoding="utf-8")


def _assignments(source: str, name_pattern: str) -> Iterator[tuple[str, ast.expr]]:
    """Top-level `NAME = ...` whose name matches, each parsed by itself."""
    starts = re.compile(rf"^({name_pattern})(?:\s*:[^=\n]+)?\s*=(?!=)", re.MULTILINE)
    for match in starts.finditer(source):
        # A top-level statement goes on until a line that starts with anything but a closing bracket.
        end = re.compile(r"^(?![\])}#])\S", re.MULTILINE).search(source, match.end())
        tree = ast.parse(source[match.start() : end.start() if end is not None else len(source)])
        statement = tree.body[0]
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        if value is not None:
            yield match[1], value


def _keys(table: ast.Dict, tables: dict[str, dict[str, None]]) -> Iterator[str]:
    """Text keys of a dictionary display, those of `**OTHER` included."""
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value
        elif key is None:
            merged = [node.id for node in ast.walk(value) if isinstance(node, ast.Name) and node.id in tables]
            if not merged:
                raise _Unreadable("it merges something that is no plain table")
            # A comprehension over another table gives some of its keys; that table is merged as a whole too.
            if isinstance(value, ast.Name):
                yield from tables[merged[0]]


def _literal_values(node: ast.expr, literals: dict[str, ast.expr]) -> Iterator[str]:
    """Texts of `Literal[...]`, those of other literals named in it included."""
    if isinstance(node, ast.Subscript):
        yield from _literal_values(node.slice, literals)
    elif isinstance(node, ast.Tuple):
        for item in node.elts:
            yield from _literal_values(item, literals)
    elif isinstance(node, ast.BinOp):
        yield from _literal_values(node.left, literals)
        yield from _literal_values(node.right, literals)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name) and node.id in literals and node is not literals[node.id]:
        yield from _literal_values(literals[node.id], {k: v for k, v in literals.items() if k != node.id})


def _enum_members(source: str, name: str) -> list[str]:
    match = re.search(rf"^class {name}\b.*\n((?:(?:[ \t].*)?\n)*)", source, re.MULTILINE)
    return re.findall(r"^ {4}([A-Z][A-Z0-9_]*)\s*=", match[1], re.MULTILINE) if match else []
