"""Reads the bytes of a tokenizer.json that nobody vouches for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from dflash_doctor.checkpoints.token_text import Alphabet, alphabet_of, shortened

_MAX_ENTRIES = 8_000_000
"""Colons in the file, so at least its keys; real ones have up to half a million. An entry takes some 150
bytes of memory, so this bounds what a hostile file can make of 256 MiB."""

_MAX_ID = 2**32 - 1
"""The `tokenizers` library holds ids in 32 bits."""

_MAX_CANONICAL_BYTES = 64 * 1024 * 1024
"""Larger sections are compared as they are written."""

SECTIONS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")

FLAGS = ("special", "normalized", "lstrip", "rstrip", "single_word")


class AddedEntry(msgspec.Struct, frozen=True):
    """A token matched whole in text, as tokenizer.json and tokenizer_config.json write it."""

    content: str
    id: int = -1
    special: bool = False
    normalized: bool = True
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags that are on."""
        return tuple(flag for flag in FLAGS if getattr(self, flag))


class _Model(msgspec.Struct):
    # No default: an object without one is another kind of file.
    vocab: dict[str, int] | list[tuple[str, float]]
    type: str | None = None
    merges: msgspec.Raw = msgspec.Raw(b"null")
    unk_id: int | None = None
    unk_token: str | None = None
    dropout: float | None = None
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    fuse_unk: bool | None = None
    byte_fallback: bool | None = None
    ignore_merges: bool | None = None
    max_input_chars_per_word: int | None = None

    def options(self) -> bytes:
        """What else decides how text is split; an option that is off equals one that is not written."""
        names = set(self.__struct_fields__) - {"vocab", "type", "merges"}
        values = {name: getattr(self, name) for name in names}
        is_on = {name: value for name, value in values.items() if value or (name == "unk_id" and value == 0)}
        return msgspec.json.encode(is_on, order="sorted")


class _File(msgspec.Struct):
    model: _Model
    added_tokens: list[AddedEntry] | None = None
    normalizer: msgspec.Raw = msgspec.Raw(b"null")
    pre_tokenizer: msgspec.Raw = msgspec.Raw(b"null")
    post_processor: msgspec.Raw = msgspec.Raw(b"null")
    decoder: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True)
class ParsedTokenizer:
    """What tokenizer.json says."""

    kind: str
    vocabulary: dict[int, str]
    """Id -> entry as written, without the added tokens."""
    added: dict[int, AddedEntry]
    """Id -> token matched whole; it wins over a vocabulary entry of the same id."""
    alphabet: Alphabet
    sections: dict[str, bytes]
    """Canonical JSON of each section."""
    scores: tuple[float, ...] | None
    """Of a Unigram model."""
    merges: bytes
    """As written; see `merges_of`."""
    notes: tuple[str, ...] = field(default=())


def parse_tokenizer(data: bytes) -> ParsedTokenizer | str:
    """The tokenizer in the file, or in words why there is none. Never raises."""
    if problem := _other_format(data):
        return problem
    try:
        return _parse(data)
    except msgspec.ValidationError as error:
        return f"JSON, but no tokenizer.json of the tokenizers library: {shortened(str(error))}"
    except msgspec.DecodeError as error:
        return f"no valid JSON: {shortened(str(error))}"
    except UnicodeDecodeError:
        return "no valid JSON: not UTF-8"
    except RecursionError:
        return "JSON nested too deeply"
    except (ValueError, OverflowError) as error:
        return f"cannot be read: {shortened(str(error))}"


def merges_of(raw: bytes) -> list[tuple[str, str]]:
    """Merges in one spelling: old files write `"a b"`, newer ones `["a", "b"]`. Empty for anything else."""
    if len(raw) > _MAX_CANONICAL_BYTES:
        return []
    try:
        rules = msgspec.json.decode(raw, type=list[str | tuple[str, str]] | None) or []
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    pairs = (tuple(rule.split(" ", 1)) if isinstance(rule, str) else rule for rule in rules)
    return [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]


def _other_format(data: bytes) -> str | None:
    """Names the format where the first bytes tell it; `None` for what may be JSON."""
    if data.startswith(b"GGUF"):
        return "a GGUF file, not a tokenizer.json"
    if data.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer: the file itself was not downloaded"
    if data.startswith(b"\xef\xbb\xbf"):
        return "begins with a byte order mark, which the tokenizers library refuses"
    start = data[:64].lstrip(b" \t\r\n")
    if not start:
        return "empty"
    if start[:1] in (b"{", b"["):
        too_many = data.count(b":") > _MAX_ENTRIES or data.count(b"[") > _MAX_ENTRIES
        return f"more than {_MAX_ENTRIES} entries" if too_many else None
    first_line = data[:200].split(b"\n", 1)[0].split(b" ")
    if len(first_line) == 2 and first_line[1].strip().isdigit():
        return "a tiktoken file (lines of base64 and rank), not a tokenizer.json"
    if data[:1] == b"\n" or b"<unk>" in data[:64]:
        return "a SentencePiece model, not a tokenizer.json"
    return "no JSON"


def _parse(data: bytes) -> ParsedTokenizer | str:
    file = msgspec.json.decode(data, type=_File)
    model = file.model
    scores = None
    if isinstance(model.vocab, dict):
        vocabulary = dict(zip(model.vocab.values(), model.vocab, strict=True))
        if len(vocabulary) < len(model.vocab):
            return _duplicate(model.vocab)
    else:
        vocabulary = {index: text for index, (text, _) in enumerate(model.vocab)}
        scores = tuple(score for _, score in model.vocab)
    added: dict[int, AddedEntry] = {}
    notes = []
    for entry in file.added_tokens or ():
        known = added.get(entry.id)
        if known is not None and known.content != entry.content:
            return _twice(entry.id, known.content, entry.content)
        added[entry.id] = entry
        if vocabulary.get(entry.id, entry.content) != entry.content:
            texts = f"{shortened(entry.content)!r} over {shortened(vocabulary[entry.id])!r}"
            notes.append(f"added token {entry.id} is written over a vocabulary entry: {texts}")
    ids = vocabulary.keys() | added.keys()
    if not ids:
        return "holds no token"
    if bad := next((number for number in (min(ids), max(ids)) if not 0 <= number <= _MAX_ID), None):
        return f"token id {shortened(str(bad))} is outside 0..{_MAX_ID}"
    sections = {name: _plain(getattr(file, name)) for name in SECTIONS}
    kind = model.type or (
        "Unigram" if scores is not None else "BPE" if bytes(model.merges) != b"null" else "WordPiece"
    )
    return ParsedTokenizer(
        kind=shortened(kind),
        vocabulary=vocabulary,
        added=added,
        alphabet=alphabet_of({name: value for name, value in sections.items() if name != "post_processor"}),
        sections={name: msgspec.json.encode(value, order="sorted") for name, value in sections.items()}
        | {"model": model.options()},
        scores=scores,
        merges=bytes(model.merges),
        notes=tuple(notes[:5]),
    )


def _plain(raw: msgspec.Raw) -> Any:
    """A section as plain data; one too large to be true as the text it is."""
    if len(bytes(raw)) > _MAX_CANONICAL_BYTES:
        return bytes(raw).decode("utf-8", errors="replace")
    return msgspec.json.decode(raw)


def _duplicate(vocab: dict[str, int]) -> str:
    seen: dict[int, str] = {}
    for text, number in vocab.items():
        if number in seen:
            return _twice(number, seen[number], text)
        seen[number] = text
    raise AssertionError("called only where an id is given twice")


def _twice(number: int, first: str, second: str) -> str:
    return f"id {shortened(str(number))} is given twice: {shortened(first)!r} and {shortened(second)!r}"
