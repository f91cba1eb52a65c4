"""What a drafter says of the thinking mode it was trained for: in its config, else in its model card.

Only what is said in so many words counts. Where two statements disagree, or one speaks of both modes,
nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from dflash_doctor.checkpoints.files import UnfitFileError, read_if_there

_Mode = Literal["off", "on"]

_MAX_CONFIG_BYTES = 4 * 1024 * 1024
_MAX_CARD_BYTES = 1024 * 1024
_MAX_SENTENCE = 400
"""Longer ones are no statement, but text without punctuation."""

_WORDS: dict[str, _Mode] = {
    "on": "on",
    "true": "on",
    "enabled": "on",
    "thinking": "on",
    "off": "off",
    "false": "off",
    "disabled": "off",
    "non-thinking": "off",
    "non_thinking": "off",
    "no-thinking": "off",
}

_OFF = re.compile(
    r"non[- _]?thinking|without thinking|thinking (?:mode )?(?:is |was )?(?:disabled|off)\b"
    r"|enable_thinking\W{0,3}false"
)
_ON = re.compile(
    r"with thinking|in thinking mode|thinking (?:mode )?(?:is |was )?(?:enabled|on)\b|thinking traces"
    r"|enable_thinking\W{0,3}true"
)
_OF_TRAINING = re.compile(
    r"\b(?:train(?:ed|ing)|fine-?tuned|distill?ed|only (?:supports|for|in|with)|supports only|mode only)\b"
)
_UNCLEAR = re.compile(r"\b(?:not|never|both|either|neither|or|than|unlike|will|future|plan\w*)\b|n't\b")
_SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+|\n\s*\n|\n\s*(?=[-*#>])")


class _Keys(msgspec.Struct):
    """Where a config could say it."""

    enable_thinking: Any = None
    thinking: Any = None
    thinking_mode: Any = None
    trained_with_thinking: Any = None


_Shape = TypeVar("_Shape", bound=_Keys)


class _Config(_Keys):
    dflash_config: msgspec.Raw = msgspec.Raw()
    speculators_config: msgspec.Raw = msgspec.Raw()
    training: msgspec.Raw = msgspec.Raw()
    training_args: msgspec.Raw = msgspec.Raw()
    training_config: msgspec.Raw = msgspec.Raw()


def declared_thinking(folder: Path) -> tuple[_Mode | None, str | None]:
    """The mode and where it is said (file and key, or file and sentence); `(None, None)` where it is not."""
    for reader in (_from_config, _from_card):
        found: dict[_Mode, str] = {}
        for mode, source in reader(folder):
            found.setdefault(mode, source)
        if len(found) == 1:
            return next(iter(found.items()))
        if found:
            break
    return None, None


def _from_config(folder: Path) -> Iterator[tuple[_Mode, str]]:
    content = _read(folder, "config.json", _MAX_CONFIG_BYTES)
    config = None if content is None else _decode(content, _Config)
    if config is None:
        return
    yield from _in_place(config, "")
    for place in _Config.__struct_fields__:
        raw = getattr(config, place)
        if isinstance(raw, msgspec.Raw) and bytes(raw):
            yield from _in_place(_decode(bytes(raw), _Keys), f"{place}.")


def _in_place(keys: _Keys | None, prefix: str) -> Iterator[tuple[_Mode, str]]:
    for key in _Keys.__struct_fields__:
        value = getattr(keys, key, None)
        mode = _mode_of(value)
        if mode is not None:
            yield mode, f"config.json: {prefix}{key} = {msgspec.json.encode(value).decode()}"


def _mode_of(value: object) -> _Mode | None:
    if isinstance(value, bool):
        return "on" if value else "off"
    return _WORDS.get(value.strip().lower()) if isinstance(value, str) else None


def _from_card(folder: Path) -> Iterator[tuple[_Mode, str]]:
    content = _read(folder, "README.md", _MAX_CARD_BYTES)
    if content is None:
        return
    text = content.decode("utf-8", "replace").replace("\r\n", "\n")
    for piece in _SENTENCE_END.split(_without_code_and_tables(text)):
        sentence = " ".join(piece.split())
        mode = _mode_said(sentence.lower()) if len(sentence) <= _MAX_SENTENCE else None
        if mode is not None:
            yield mode, f"README.md: {sentence}"


def _without_code_and_tables(text: str) -> str:
    """Prose only: code shows how to call something, and a table row can be about another model."""
    lines = []
    is_code = False
    for line in text.split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
        elif not is_code and not line.lstrip().startswith("|"):
            lines.append(line)
    return "\n".join(lines)


def _mode_said(sentence: str) -> _Mode | None:
    if "thinking" not in sentence or not _OF_TRAINING.search(sentence) or _UNCLEAR.search(sentence):
        return None
    rest, num_off = _OFF.subn(" ", sentence)
    if num_off:
        return None if _ON.search(rest) else "off"
    return "on" if _ON.search(sentence) else None


def _decode(content: bytes, shape: type[_Shape]) -> _Shape | None:
    try:
        return msgspec.json.decode(content, type=shape)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def _read(folder: Path, name: str, max_bytes: int) -> bytes | None:
    try:
        return read_if_there(folder / name, max_bytes=max_bytes)
    except UnfitFileError:
        return None
