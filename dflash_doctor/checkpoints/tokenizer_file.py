"""Reads a tokenizer.json and the files beside it: ids, texts, added tokens, roles. Never raises."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from dflash_doctor.checkpoints.files import UnfitFileError, exists, read_bytes, shown
from dflash_doctor.checkpoints.json_file import read_json_object
from dflash_doctor.contract.tokenizers import TokenFact, TokenizerFacts

TOKENIZER_NAME = "tokenizer.json"
OTHER_FORMATS = (
    "tokenizer.model",
    "tiktoken.model",
    "tekken.json",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
)
ROLES = ("bos", "eos", "pad", "unk", "mask")
_MAX_BYTES = 256 * 1024 * 1024
_MAX_ID = 16_000_000
"""Sixty times the largest vocabulary; an id beyond is a damaged file."""
_RULES = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_FLAGS = ("special", "single_word", "lstrip", "rstrip", "normalized")


@dataclass(frozen=True)
class AddedToken:
    """A token beside the model's vocabulary."""

    text: str
    flags: tuple[bool, ...]
    """special, single_word, lstrip, rstrip, normalized"""

    @property
    def special(self) -> bool:
        """Whether decoding may leave it out."""
        return self.flags[0]


@dataclass(frozen=True)
class TokenizerFile:
    """What was read; `problem` says why nothing was."""

    path: Path
    problem: str | None = None
    raw: bytes = b""
    kind: str | None = None
    texts: dict[int, str] = field(default_factory=dict)
    """Every id, added tokens included, as spelled in the file."""
    added: dict[int, AddedToken] = field(default_factory=dict)
    roles: dict[str, int] = field(default_factory=dict)
    """bos, eos, pad, unk, mask -> id"""
    rules: str = ""
    """Hash of everything that decides how text is cut, but for ids."""
    byte_level: bool = False

    @cached_property
    def sha256(self) -> str | None:
        """Of the file."""
        return hashlib.sha256(self.raw).hexdigest() if self.problem is None else None

    def facts(self) -> TokenizerFacts:
        """The short form."""
        return TokenizerFacts(
            file=shown(self.path, 4096),
            problem=self.problem,
            kind=self.kind,
            num_ids=len(self.texts),
            highest_id=max(self.texts, default=None),
            num_added=len(self.added),
            num_special=sum(item.special for item in self.added.values()),
            sha256=self.sha256,
        )

    def readable(self, token_id: int) -> str:
        """The text that an id stands for; byte-level spellings undone."""
        text = self.texts.get(token_id)
        if text is None:
            return ""
        if token_id in self.added or not self.byte_level:
            return shown(text.replace("▁", " "))
        table = _byte_of_character()
        if any(character not in table for character in text):
            return shown(text)
        return shown(bytes(table[character] for character in text).decode("utf-8", "replace"))

    def describe(self, token_id: int) -> TokenFact:
        """What is known of an id."""
        roles = tuple(name for name, number in self.roles.items() if number == token_id)
        if token_id not in self.texts:
            return TokenFact(id=token_id, text="", kind="absent", roles=roles)
        added = self.added.get(token_id)
        kind = "ordinary" if added is None else "special" if added.special else "added"
        return TokenFact(id=token_id, text=self.readable(token_id), kind=kind, roles=roles)  # type: ignore[arg-type]


def read_tokenizer(folder: Path) -> TokenizerFile | None:
    """The tokenizer of a checkpoint folder; `None` where it brings none at all."""
    path = folder / TOKENIZER_NAME
    if not exists(path):
        other = next((name for name in OTHER_FORMATS if exists(folder / name)), None)
        if other is None:
            return None
        return TokenizerFile(folder / other, problem="it is of another format than tokenizer.json")
    try:
        raw = read_bytes(path, max_bytes=_MAX_BYTES)
        document = msgspec.json.decode(raw)
        if not isinstance(document, dict):
            raise UnfitFileError(f"it holds a JSON {type(document).__name__}, not an object")
        return _parse(path, raw, document, folder)
    except UnfitFileError as error:
        return TokenizerFile(path, problem=shown(str(error)))
    except (msgspec.DecodeError, ValueError, TypeError) as error:
        return TokenizerFile(path, problem=shown(f"it is not a tokenizer file: {error}"))
    except RecursionError:
        return TokenizerFile(path, problem="it is nested too deeply")


def _parse(path: Path, raw: bytes, document: Mapping[str, Any], folder: Path) -> TokenizerFile:
    model = document.get("model")
    if not isinstance(model, dict):
        raise UnfitFileError("it has no model")
    texts = _vocabulary(model.get("vocab"))
    added = _added(document.get("added_tokens") or [])
    texts |= {token_id: item.text for token_id, item in added.items()}
    ids = {text: token_id for token_id, text in texts.items()}
    rules = {name: document.get(name) for name in _RULES}
    model_rules = {key: value for key, value in model.items() if key != "vocab"}
    spelled = json.dumps([rules, model_rules], sort_keys=True, default=str)
    return TokenizerFile(
        path=path,
        raw=raw,
        kind=str(model.get("type") or ("BPE" if "merges" in model else "unknown")),
        texts=texts,
        added=added,
        roles=_roles(folder, ids),
        rules=hashlib.sha256(spelled.encode("utf-8", "replace")).hexdigest(),
        byte_level="ByteLevel" in spelled,
    )


def _vocabulary(vocab: Any) -> dict[int, str]:
    """Id -> text of the model's vocabulary: a mapping, or for Unigram a list of texts with scores."""
    if isinstance(vocab, list):
        # Unigram: a text and its score each.
        pairs: Iterable[tuple[Any, Any]] = (
            (entry[0] if isinstance(entry, list) and entry else None, index)
            for index, entry in enumerate(vocab)
        )
    elif isinstance(vocab, dict):
        pairs = vocab.items()
    else:
        raise UnfitFileError("its model has no vocabulary")
    found: dict[int, str] = {}
    for text, token_id in pairs:
        _require_id(token_id)
        if not isinstance(text, str):
            raise UnfitFileError(f"its vocabulary holds a {type(text).__name__} where a text should be")
        if token_id in found:
            raise UnfitFileError(f"its vocabulary gives id {token_id} to {found[token_id]!r} and {text!r}")
        found[token_id] = text
    return found


def _added(entries: Any) -> dict[int, AddedToken]:
    if not isinstance(entries, list):
        raise UnfitFileError("its added_tokens are no list")
    found = {}
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
            raise UnfitFileError("one of its added tokens has no content")
        _require_id(entry.get("id"))
        flags = tuple(bool(entry.get(name)) for name in _FLAGS)
        found[entry["id"]] = AddedToken(entry["content"], flags)
    return found


def _require_id(value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_ID:
        raise UnfitFileError(f"its vocabulary holds the id {shown(repr(value))}")


def _roles(folder: Path, ids: Mapping[str, int]) -> dict[str, int]:
    """Tokens with a part to play, as the files beside the tokenizer name them."""
    found: dict[str, int] = {}
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        values = read_json_object(folder / name, required=False).value or {}
        for role in ROLES:
            stated = values.get(f"{role}_token")
            text = stated.get("content") if isinstance(stated, dict) else stated
            if isinstance(text, str) and text in ids:
                found.setdefault(role, ids[text])
    config = read_json_object(folder / "config.json", required=False).value or {}
    for role in ("bos", "eos", "pad"):
        number = config.get(f"{role}_token_id")
        if isinstance(number, int) and not isinstance(number, bool):
            found.setdefault(role, number)
    return found


def _byte_of_character() -> dict[str, int]:
    """The bytes that byte-level tokenizers spell as printable characters.

    Source: GPT-2's table; printable Latin-1 stands for itself, the rest for characters from 256 on.
    """
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(byte): byte for byte in plain}
    others = [byte for byte in range(256) if byte not in set(plain)]
    table |= {chr(256 + offset): byte for offset, byte in enumerate(others)}
    return table
