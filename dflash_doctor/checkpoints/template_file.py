"""Finds the chat template of a checkpoint folder, and what the drafter's files say of thinking."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dflash_doctor.checkpoints.files import UnfitFileError, exists, read_text, shown
from dflash_doctor.checkpoints.json_file import read_json_object
from dflash_doctor.contract.templates import TemplateFacts

_JINJA = "chat_template.jinja"
_JSON_FILES = ("chat_template.json", "tokenizer_config.json")
_KEY = "chat_template"
_MAX_BYTES = 4 * 1024 * 1024
"""The longest in use have some thirty kilobytes."""
_SPECIALS = ("bos_token", "eos_token", "pad_token", "unk_token")
_THINKING_KEYS = ("enable_thinking", "thinking", "dflash_config.enable_thinking", "dflash_config.thinking")
_NOT_THINKING = re.compile(
    r"non[- ]thinking (?:mode )?only|only (?:supports|trained (?:on|in)) non[- ]thinking|"
    r"trained (?:on|in|with) non[- ]thinking|enable_thinking ?= ?False only",
    re.IGNORECASE,
)
_THINKING = re.compile(
    r"trained (?:on|in|with) thinking|(?<!non-)(?<!non )thinking (?:mode )?only", re.IGNORECASE
)
_MAX_CARD_BYTES = 1024 * 1024


@dataclass(frozen=True)
class TemplateFile:
    """A template and the special tokens that it may name; `text` is `None` where `problem` says why."""

    path: Path
    key: str | None = None
    """Key that holds it, where the file is JSON."""
    text: str | None = None
    problem: str | None = None
    specials: dict[str, str] = field(default_factory=dict)

    def facts(self) -> TemplateFacts:
        """The short form, before anything is rendered."""
        digest = hashlib.sha256(self.text.encode("utf-8", "replace")).hexdigest() if self.text else None
        return TemplateFacts(file=shown(self.path, 4096), field=self.key, problem=self.problem, sha256=digest)


def read_template(folder: Path) -> TemplateFile | None:
    """The template of a folder; `None` where it brings none. Never raises."""
    specials = _specials(folder)
    path = folder / _JINJA
    if exists(path):
        try:
            return TemplateFile(path, text=read_text(path, max_bytes=_MAX_BYTES), specials=specials)
        except UnfitFileError as error:
            return TemplateFile(path, problem=str(error))
    for name in _JSON_FILES:
        path = folder / name
        if not exists(path):
            continue
        file = read_json_object(path, max_bytes=_MAX_BYTES)
        if file.value is None:
            return TemplateFile(path, problem=file.problems[0].seen)
        stated = file.value.get(_KEY)
        if stated is not None:
            return _stated(path, stated, specials)
    return None


def trained_thinking(folder: Path) -> tuple[Literal["off", "on"] | None, str]:
    """Thinking mode that the drafter's own files state, and where; `None` unless one says it outright."""
    config = read_json_object(folder / "config.json", required=False).value or {}
    for key in _THINKING_KEYS:
        value: Any = config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return ("on" if value else "off"), f"config.json: {key}"
    try:
        card = read_text(folder / "README.md", max_bytes=_MAX_CARD_BYTES)
    except UnfitFileError:
        return None, ""
    negative, positive = _NOT_THINKING.search(card), _THINKING.search(card)
    if (negative is None) == (positive is None):
        return None, ""
    found = negative or positive
    assert found is not None, "one of the two matched"
    line = card.count("\n", 0, found.start()) + 1
    return ("off" if negative else "on"), f"README.md:{line} ({found.group()!r})"


def _stated(path: Path, stated: Any, specials: dict[str, str]) -> TemplateFile:
    """A template as text, or a list of named ones of which `default` counts."""
    if isinstance(stated, str):
        return TemplateFile(path, _KEY, text=stated, specials=specials)
    if isinstance(stated, list):
        named = {
            item["name"]: item["template"]
            for item in stated
            if isinstance(item, dict)
            and isinstance(item.get("name"), str)
            and isinstance(item.get("template"), str)
        }
        if "default" in named:
            return TemplateFile(path, f"{_KEY}.default", text=named["default"], specials=specials)
        return TemplateFile(path, _KEY, problem="none of its templates is called default")
    return TemplateFile(path, _KEY, problem=f"it is a JSON {type(stated).__name__}, not a text")


def _specials(folder: Path) -> dict[str, str]:
    """Texts of the special tokens, as the files beside the template name them."""
    found: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        values = read_json_object(folder / name, required=False).value or {}
        for key in _SPECIALS:
            stated = values.get(key)
            text = stated.get("content") if isinstance(stated, dict) else stated
            if isinstance(text, str):
                found[key] = text
    return found
