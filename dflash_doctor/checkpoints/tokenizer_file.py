"""Reads the tokenizer of a checkpoint folder: which id stands for what."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from dflash_doctor.checkpoints.files import UnfitFileError, read_if_there
from dflash_doctor.checkpoints.files import shown as printable
from dflash_doctor.checkpoints.token_text import bytes_of, readable, shortened
from dflash_doctor.checkpoints.tokenizer_json import AddedEntry, ParsedTokenizer, parse_tokenizer
from dflash_doctor.checkpoints.tokenizer_settings import TokenizerSettings, embedding_rows, read_settings
from dflash_doctor.contract.tokenizers import SpecialToken, TokenFact, TokenizerFacts

MAX_TOKENIZER_BYTES = 256 * 1024 * 1024
"""The largest real ones are 35 MB."""

_OTHER_FILES = {
    "tokenizer.model": "SentencePiece",
    "spiece.model": "SentencePiece",
    "sentencepiece.bpe.model": "SentencePiece",
    "tekken.json": "Tekken",
    "vocab.json": "vocabulary and merges",
    "vocab.txt": "WordPiece vocabulary",
}
_OTHER_SUFFIXES = {".tiktoken": "tiktoken", ".gguf": "GGUF"}
_MAX_LISTED = 10_000
"""Folder entries looked at for tokenizers of another format."""


@dataclass(frozen=True)
class TokenizerFile:
    """A tokenizer as transformers would load it from the folder."""

    facts: TokenizerFacts | None
    """`None`: the folder has no tokenizer file of any kind."""
    parsed: ParsedTokenizer | None = None
    """`None`: it has none, or none that can be read; then no id is known."""
    settings: TokenizerSettings | None = None
    path: Path | None = None
    """tokenizer.json, links resolved."""
    tokens: dict[int, str] = field(default_factory=dict)
    """Id -> token as the files write it."""
    added: dict[int, AddedEntry] = field(default_factory=dict)
    """Id -> token matched whole in text; part of `tokens`."""
    late: tuple[AddedEntry, ...] = ()
    """Those that the files beside tokenizer.json add or change, in the order in which they are added."""

    def describe(self, token_id: int) -> TokenFact | None:
        """What an id stands for; `None` where no tokenizer could be read."""
        if self.parsed is None or self.facts is None:
            return None
        if token_id not in self.tokens:
            return TokenFact(id=token_id, text=None, kind="absent", roles=self._roles(token_id))
        entry = self.added.get(token_id)
        return TokenFact(
            id=token_id,
            text=self.shown(token_id),
            kind="ordinary" if entry is None else "special" if entry.special else "added",
            roles=self._roles(token_id),
        )

    def _roles(self, token_id: int) -> tuple[str, ...]:
        """By the text that the tokenizer's files give a role, then by the id that the model's files give."""
        assert self.facts is not None, "the caller looked"
        assert self.settings is not None, "read"
        by_text = [item.role for item in self.facts.special_tokens if item.id == token_id]
        by_id = [role for role, ids in self.settings.role_ids.items() if token_id in ids]
        return tuple(dict.fromkeys([*by_text, *by_id]))

    def literal(self, token_id: int) -> bytes | None:
        """The bytes of text that an id stands for; `None` for an id without a token."""
        raw = self.tokens.get(token_id)
        if raw is None or self.parsed is None:
            return None
        if token_id in self.added:  # written as it stands in text
            return raw.encode("utf-8", errors="surrogatepass")
        return bytes_of(raw, self.parsed.alphabet)

    def shown(self, token_id: int) -> str | None:
        """The same for a reader."""
        data = self.literal(token_id)
        return None if data is None else readable(data)


def read_tokenizer(
    folder: Path, *, num_rows: int | None = None, like: TokenizerFile | None = None
) -> TokenizerFile:
    """The tokenizer of a folder, whatever its files hold; never raises.

    Args:
        folder: a checkpoint folder.
        num_rows: rows of the embedding, where known; else the config's `vocab_size`.
        like: one that was read before; where the bytes are the same they are not parsed again.
    """
    path = folder / "tokenizer.json"
    file = printable(path, 4096)
    try:
        data = read_if_there(path, max_bytes=MAX_TOKENIZER_BYTES)
    except UnfitFileError as error:
        return TokenizerFile(TokenizerFacts(file=file, problem=str(error)))
    if data is None:
        return TokenizerFile(_other_tokenizer(folder))
    sha256 = hashlib.sha256(data).hexdigest()
    if like is not None and like.parsed is not None and like.facts and like.facts.sha256 == sha256:
        parsed: ParsedTokenizer | str = like.parsed
    else:
        parsed = parse_tokenizer(data)
    if isinstance(parsed, str):
        return TokenizerFile(TokenizerFacts(file=file, problem=parsed, sha256=sha256))
    settings = read_settings(folder)
    tokens, added, late, notes = _loaded(parsed, settings)
    named = set(settings.roles.values())
    ids = {text: number for number, text in tokens.items() if text in named}
    ids |= {entry.content: number for number, entry in added.items() if entry.content in named}
    facts = TokenizerFacts(
        file=file,
        kind=parsed.kind,
        num_ids=len(tokens),
        last_id=max(tokens),
        sha256=sha256,
        num_added=sum(not entry.special for entry in added.values()),
        num_special=sum(entry.special for entry in added.values()),
        special_tokens=tuple(
            SpecialToken(role=role, text=shortened(text), id=ids.get(text))
            for role, text in settings.roles.items()
        ),
        num_rows=embedding_rows(folder) if num_rows is None else num_rows,
        notes=(*parsed.notes, *settings.notes, *notes),
    )
    return TokenizerFile(facts, parsed, settings, Path(os.path.realpath(path)), tokens, added, late)


def describe_token(folder: Path, token_id: int) -> TokenFact | None:
    """What an id of the folder's tokenizer stands for; `None` where no tokenizer can be read.

    Reads the files each time: for several ids call `read_tokenizer` once.
    """
    return read_tokenizer(folder).describe(token_id)


def _loaded(
    parsed: ParsedTokenizer, settings: TokenizerSettings
) -> tuple[dict[int, str], dict[int, AddedEntry], tuple[AddedEntry, ...], list[str]]:
    """Tokens, added tokens, those added late, and notes, after what transformers adds on loading.

    In its order (`TokenizersBackend.__init__`): tokens declared by id, then roles, then further special
    tokens. A new one takes the next free id, whatever id was declared for it.
    """
    added = dict(parsed.added)
    tokens = parsed.vocabulary | {number: entry.content for number, entry in added.items()}
    id_of_added = {entry.content: number for number, entry in added.items()}
    special = {*settings.roles.values(), *settings.extra}
    wanted = [
        entry
        for entry in settings.declared
        if not _is_same(added.get(id_of_added.get(entry.content, -1)), entry)
    ]
    declared = {*id_of_added, *(entry.content for entry in wanted)}
    wanted += [
        AddedEntry(text, special=True, normalized=False)
        for text in dict.fromkeys([*settings.roles.values(), *settings.extra])
        if text not in declared
    ]
    if not wanted:
        return tokens, added, (), []
    notes = []
    id_of_entry = {text: number for number, text in parsed.vocabulary.items()}
    late = []
    for entry in wanted:
        number = id_of_added.get(entry.content, id_of_entry.get(entry.content))
        if number is None:
            highest = max(added, default=-1)
            number = highest + 1 if highest >= len(parsed.vocabulary) else len(parsed.vocabulary)
        if entry.id not in (-1, number):
            notes.append(f"{shortened(entry.content)!r} is declared as id {entry.id} and loaded as {number}")
        kept = msgspec.structs.replace(entry, id=number, special=entry.special or entry.content in special)
        added[number] = kept
        tokens[number] = kept.content
        id_of_added[kept.content] = number
        late.append(kept)
    return tokens, added, tuple(late), notes[:5]


def _is_same(known: AddedEntry | None, entry: AddedEntry) -> bool:
    return known is not None and known.content == entry.content and known.flags == entry.flags


def _other_tokenizer(folder: Path) -> TokenizerFacts | None:
    """A tokenizer file of a format that is not compared; `None` where there is none at all."""
    for name, kind in _OTHER_FILES.items():
        if (folder / name).is_file():
            return TokenizerFacts(
                file=printable(folder / name, 4096),
                problem=f"a {kind} file is not compared, and there is no tokenizer.json",
                is_other_format=True,
            )
    try:
        with os.scandir(folder) as entries:
            for _, entry in zip(range(_MAX_LISTED), entries, strict=False):
                if kind := _OTHER_SUFFIXES.get(Path(entry.name).suffix, ""):
                    problem = f"a {kind} file is not compared, and there is no tokenizer.json"
                    return TokenizerFacts(
                        file=printable(folder / entry.name, 4096), problem=problem, is_other_format=True
                    )
    except OSError:
        return None
    return None
