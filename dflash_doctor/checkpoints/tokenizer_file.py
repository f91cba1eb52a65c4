"""Reads a tokenizer.json and the files beside it: ids, texts, added tokens, roles. Never raises."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

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


class _Added(msgspec.Struct, frozen=True):
    id: int
    content: str
    special: bool = False
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False

    def flags(self) -> tuple[bool, ...]:
        return self.special, self.single_word, self.lstrip, self.rstrip, self.normalized


class _Model(msgspec.Struct, frozen=True):
    """The model; its rules are kept as they are written, for a quarter of a million merges are no objects."""

    type: str | None = None
    vocab: dict[str, int] | list[tuple[str, float]] | None = None
    merges: msgspec.Raw = msgspec.Raw()
    unk_token: msgspec.Raw = msgspec.Raw()
    unk_id: msgspec.Raw = msgspec.Raw()
    continuing_subword_prefix: msgspec.Raw = msgspec.Raw()
    end_of_word_suffix: msgspec.Raw = msgspec.Raw()
    fuse_unk: msgspec.Raw = msgspec.Raw()
    byte_fallback: msgspec.Raw = msgspec.Raw()
    ignore_merges: msgspec.Raw = msgspec.Raw()
    max_input_chars_per_word: msgspec.Raw = msgspec.Raw()


class _Document(msgspec.Struct, frozen=True):
    model: _Model | None = None
    added_tokens: list[_Added] | None = None
    normalizer: msgspec.Raw = msgspec.Raw()
    pre_tokenizer: msgspec.Raw = msgspec.Raw()
    post_processor: msgspec.Raw = msgspec.Raw()
    decoder: msgspec.Raw = msgspec.Raw()


_DECODER = msgspec.json.Decoder(_Document)


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


def read_tokenizer(folder: Path, *, like: TokenizerFile | None = None) -> TokenizerFile | None:
    """The tokenizer of a checkpoint folder; `None` where it brings none at all.

    Args:
        folder: the checkpoint's.
        like: one that has been read; a file with the same bytes is not read again.
    """
    path = folder / TOKENIZER_NAME
    if not exists(path):
        other = next((name for name in OTHER_FORMATS if exists(folder / name)), None)
        if other is None:
            return None
        return TokenizerFile(folder / other, problem="it is of another format than tokenizer.json")
    try:
        raw = read_bytes(path, max_bytes=_MAX_BYTES)
        if like is not None and raw == like.raw:
            return replace(like, path=path, roles=_roles(folder, like.texts))
        return _parse(path, raw, _DECODER.decode(raw), folder)
    except UnfitFileError as error:
        return TokenizerFile(path, problem=shown(str(error)))
    except (msgspec.DecodeError, ValueError) as error:
        return TokenizerFile(path, problem=shown(f"it is not a tokenizer file: {error}"))
    except RecursionError:
        return TokenizerFile(path, problem="it is nested too deeply")


def _parse(path: Path, raw: bytes, document: _Document, folder: Path) -> TokenizerFile:
    model = document.model
    if model is None or model.vocab is None:
        raise UnfitFileError("it has no model" if model is None else "its model has no vocabulary")
    texts = _by_id(model.vocab)
    added = {item.id: AddedToken(item.content, item.flags()) for item in document.added_tokens or ()}
    texts |= {token_id: item.text for token_id, item in added.items()}
    odd = next((token_id for token_id in texts if not 0 <= token_id <= _MAX_ID), None)
    if odd is not None:
        raise UnfitFileError(f"its vocabulary holds the id {odd}")
    spelled = _rules(document, model)
    return TokenizerFile(
        path=path,
        raw=raw,
        kind=model.type or ("BPE" if bytes(model.merges) else "unknown"),
        texts=texts,
        added=added,
        roles=_roles(folder, texts),
        rules=hashlib.sha256(spelled).hexdigest(),
        byte_level=b"ByteLevel" in bytes(document.pre_tokenizer) + bytes(document.decoder),
    )


def _by_id(vocab: dict[str, int] | list[tuple[str, float]]) -> dict[int, str]:
    """Id -> text of the model's vocabulary: a mapping, or for Unigram a list of texts with scores."""
    if isinstance(vocab, list):
        return {index: entry[0] for index, entry in enumerate(vocab)}
    found = {token_id: text for text, token_id in vocab.items()}
    if len(found) < len(vocab):
        text = next(text for text, token_id in vocab.items() if found[token_id] != text)
        raise UnfitFileError(f"its vocabulary gives id {vocab[text]} to {text!r} and {found[vocab[text]]!r}")
    return found


def _rules(document: _Document, model: _Model) -> bytes:
    """Everything that decides how text is cut, as it is written; written otherwise it counts as other."""
    parts = [getattr(document, name) for name in _RULES]
    parts += [getattr(model, name) for name in model.__struct_fields__ if name not in ("type", "vocab")]
    return b"\0".join(bytes(part) for part in parts)


def _roles(folder: Path, texts: Mapping[int, str]) -> dict[str, int]:
    """Tokens with a part to play, as the files beside the tokenizer name them."""
    found: dict[str, int] = {}
    wanted: dict[str, str] = {}
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        values = read_json_object(folder / name, required=False).value or {}
        for role in ROLES:
            stated = values.get(f"{role}_token")
            text = stated.get("content") if isinstance(stated, dict) else stated
            if isinstance(text, str):
                wanted.setdefault(role, text)
    if wanted:
        names = set(wanted.values())
        ids = {text: token_id for token_id, text in texts.items() if text in names}
        found |= {role: ids[text] for role, text in wanted.items() if text in ids}
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
