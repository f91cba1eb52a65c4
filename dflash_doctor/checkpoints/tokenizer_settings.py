"""What the small files beside tokenizer.json say: roles, further added tokens, switches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dflash_doctor.checkpoints.files import UnfitFileError, read_if_there
from dflash_doctor.checkpoints.token_text import shortened
from dflash_doctor.checkpoints.tokenizer_json import FLAGS, AddedEntry

_MAX_BYTES = 16 * 1024 * 1024
"""Real ones are a few kilobytes, with a thousand reserved tokens a few hundred."""

ROLES = ("bos", "eos", "pad", "unk", "mask", "sep", "cls")
_MODEL_ROLES = ("bos", "eos", "pad")

_SWITCHES = (
    "tokenizer_class",
    "add_bos_token",
    "add_eos_token",
    "add_prefix_space",
    "split_special_tokens",
    "clean_up_tokenization_spaces",
)
"""Keys of tokenizer_config.json that change how transformers turns text into ids or back."""


@dataclass(frozen=True)
class TokenizerSettings:
    """The settings as transformers would read them."""

    roles: dict[str, str]
    """Role -> text of its token."""
    switches: dict[str, str]
    """Keys that change how text becomes ids or ids become text, where they are set."""
    declared: tuple[AddedEntry, ...] = ()
    """Added tokens named by id here and not only in tokenizer.json, in id order."""
    extra: tuple[str, ...] = ()
    """Further special tokens, by text."""
    splits_special_tokens: bool = False
    """Special-token strings inside user text are split like any text."""
    role_ids: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Role -> ids that config.json and generation_config.json give it."""
    notes: tuple[str, ...] = ()


def read_settings(folder: Path) -> TokenizerSettings:
    """tokenizer_config.json, and the older files of the folder where it leaves things to them."""
    notes: list[str] = []
    config = _object(folder, "tokenizer_config.json", notes)
    roles = {role: text for role in ROLES if (text := _text(config.get(f"{role}_token")))}
    extra = [*_texts(config.get("extra_special_tokens")), *_texts(config.get("additional_special_tokens"))]
    decoder = config.get("added_tokens_decoder")
    if isinstance(decoder, dict):
        declared = sorted(_declared(decoder), key=lambda entry: entry.id)
    else:
        # Only without that key does transformers look at the older files.
        older = _object(folder, "special_tokens_map.json", notes)
        roles = {role: text for role in ROLES if (text := _text(older.get(f"{role}_token")))} | roles
        extra += _texts(older.get("additional_special_tokens"))
        special = {*roles.values(), *extra}
        declared = sorted(
            (
                AddedEntry(text, number, special=text in special, normalized=text not in special)
                for text, number in _object(folder, "added_tokens.json", notes).items()
                if _is_id(number)
            ),
            key=lambda entry: entry.id,
        )
    return TokenizerSettings(
        roles=roles,
        declared=tuple(declared),
        extra=tuple(dict.fromkeys(extra)),
        switches={key: _shown(key, config[key]) for key in _SWITCHES if config.get(key) is not None},
        splits_special_tokens=config.get("split_special_tokens") is True,
        role_ids=_role_ids(folder),
        notes=tuple(notes),
    )


def _role_ids(folder: Path) -> dict[str, tuple[int, ...]]:
    """Ids that the model's own files give to roles; a list names several ends of a text."""
    found: dict[str, list[int]] = {}
    for name in ("config.json", "generation_config.json"):
        # A damaged file is said where the pair is read.
        content = _object(folder, name, [])
        for role in _MODEL_ROLES:
            stated = content.get(f"{role}_token_id")
            numbers = stated if isinstance(stated, list) else [stated]
            ids = [number for number in numbers if isinstance(number, int) and _is_id(number)]
            found.setdefault(role, []).extend(ids)
    return {role: tuple(dict.fromkeys(numbers)) for role, numbers in found.items() if numbers}


def embedding_rows(folder: Path) -> int | None:
    """`vocab_size` of config.json, at top level or of the text part; `None` where it is not said."""
    config = _object(folder, "config.json", [])
    text_part = config.get("text_config")
    for place in (config, text_part if isinstance(text_part, dict) else {}):
        size = place.get("vocab_size")
        if isinstance(size, int) and _is_id(size):
            return size
    return None


def _object(folder: Path, name: str, notes: list[str]) -> dict[str, Any]:
    """A JSON object from the folder; empty where there is none, with a note where there should be one."""
    try:
        data = read_if_there(folder / name, max_bytes=_MAX_BYTES)
        content = {} if data is None else msgspec.json.decode(data)
    except UnfitFileError as error:
        problem = str(error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        problem = f"no valid JSON: {shortened(str(error))}"
    else:
        if isinstance(content, dict):
            return content
        problem = f"a JSON {type(content).__name__}, not an object"
    notes.append(f"{name}: {problem}")
    return {}


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32


def _text(value: Any) -> str | None:
    """Text of a token written as a string or as an object with `content`."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) and value else None


def _texts(value: Any) -> list[str]:
    """Texts of a list of tokens, or of a mapping from names to tokens."""
    items = list(value.values()) if isinstance(value, dict) else value
    return [text for item in items if (text := _text(item))] if isinstance(items, list) else []


def _declared(decoder: dict[str, Any]) -> Iterator[AddedEntry]:
    for key, value in decoder.items():
        text = _text(value)
        if text is None or not (key.isascii() and key.isdecimal() and len(key) <= 10):
            continue
        flags = (
            {flag: value[flag] is True for flag in FLAGS if flag in value} if isinstance(value, dict) else {}
        )
        # The tokenizers library's own default.
        flags.setdefault("normalized", not flags.get("special", False))
        yield AddedEntry(text, int(key), **flags)


def _shown(key: str, value: Any) -> str:
    """A switch as text; the class without the ending that only says it is the Rust one."""
    text = str(value) if isinstance(value, str | int | float) else type(value).__name__
    return shortened(text.removesuffix("Fast") if key == "tokenizer_class" else text)
