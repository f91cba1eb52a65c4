"""Reads a workload: JSON Lines, one prompt a line.

A line is `{"id": ..., "category": ..., ...}` and exactly one of

- `messages`: a list of `{"role", "content"}`, rendered with the target's chat template;
- `prompt`: raw text, tokenised as it is;
- `turns`: a list of user messages; each is one request, the answers in between are the model's own.

`category` may be left out (`uncategorised`), and `id` too (file name and line number then stand in). Ids are
unique over the workload, and so are the ids of the requests that they make.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dflash_doctor.errors import UsageError

UNCATEGORISED = "uncategorised"
_MAX_LINE_BYTES = 32 * 1024 * 1024
"""A line larger than this is not a prompt; reading on would only fill the memory."""
_FORMS = ("messages", "prompt", "turns")
_KEYS = {"id", "category", *_FORMS}
_UNPRINTABLE = {"Cc", "Zl", "Zp"}
"""Unicode categories that would break a line of a report: control characters and line separators."""


@dataclass(frozen=True)
class Prompt:
    """One prompt; exactly one of `messages`, `prompt`, `turns` is set."""

    id: str
    category: str
    messages: tuple[dict[str, Any], ...] | None = None
    prompt: str | None = None
    turns: tuple[str, ...] | None = None

    @property
    def request_ids(self) -> tuple[str, ...]:
        """One id for every request that this prompt makes: `math-1`, or `chat-3#1`, `chat-3#2` for turns."""
        if self.turns is None:
            return (self.id,)
        return tuple(f"{self.id}#{number}" for number in range(1, len(self.turns) + 1))

    @property
    def sha256(self) -> str:
        """Of the content: category and text, without the id."""
        content = [self.category, self.messages, self.prompt, self.turns]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Workload:
    """Prompts in order, and where they came from."""

    source: str
    prompts: tuple[Prompt, ...]

    @property
    def sha256(self) -> str:
        """Over ids and contents, in order: two workloads with the same value ask the same."""
        digest = hashlib.sha256()
        for prompt in self.prompts:
            digest.update(f"{prompt.id}\0{prompt.sha256}\n".encode())
        return digest.hexdigest()


def load_prompts(path: str | Path) -> Workload:
    """Read a prompt file, or every *.jsonl of a folder in name order.

    Raises:
        UsageError: nothing there, or a line that is no prompt; the message names file and line.
    """
    place = Path(path)
    files = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    prompts: list[Prompt] = []
    first_seen: dict[str, str] = {}
    for file in files:
        for number, line in _lines(file):
            where = f"{file}:{number}"
            prompt = _parse(line, where, default_id=f"{file.stem}-{number}")
            # The id itself too: `a` with one request beside `a` with turns would be two prompts of one name.
            for name in dict.fromkeys((prompt.id, *prompt.request_ids)):
                if name in first_seen:
                    raise _bad_line(where, f"id {name!r} is already used at {first_seen[name]}")
                first_seen[name] = where
            prompts.append(prompt)
    if not prompts:
        raise UsageError(
            "there are no prompts here",
            seen=f"{place}: " + (f"{len(files)} *.jsonl files" if place.is_dir() else "no lines"),
            remedy='write one {"id", "category", "messages"} object a line',
        )
    return Workload(source=str(path), prompts=tuple(prompts))


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Non-empty lines with their numbers."""
    try:
        with file.open("rb") as stream:
            number = 0
            while line := stream.readline(_MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > _MAX_LINE_BYTES:
                    raise _bad_line(f"{file}:{number}", f"longer than {_MAX_LINE_BYTES} bytes")
                if line.strip():
                    yield number, line
    except OSError as error:
        raise UsageError(
            "the prompts file cannot be read",
            seen=f"{file}: {error.strerror or error}",
            remedy="name a JSON Lines file with --prompts",
        ) from error


def _parse(line: bytes, where: str, *, default_id: str) -> Prompt:
    item = _json(line, where)
    if not isinstance(item, dict):
        raise _bad_line(where, f"a JSON {type(item).__name__}, not an object")
    unknown = sorted(item.keys() - _KEYS)
    if unknown:
        raise _bad_line(where, f"unknown key {unknown[0]!r}")
    given = [form for form in _FORMS if item.get(form) is not None]
    if len(given) != 1:
        raise _bad_line(where, "it needs exactly one of messages, prompt, turns; it has " + _listed(given))
    name = _name(item.get("id", default_id), "id", where)
    category = _name(item.get("category", UNCATEGORISED), "category", where)
    form = given[0]
    if form == "prompt":
        return Prompt(name, category, prompt=_text(item["prompt"], "prompt", where))
    if form == "turns":
        turns = _filled_list(item["turns"], "turns", where)
        return Prompt(name, category, turns=tuple(_text(turn, "a turn", where) for turn in turns))
    messages = _filled_list(item["messages"], "messages", where)
    return Prompt(name, category, messages=tuple(_message(message, where) for message in messages))


def _json(line: bytes, where: str) -> Any:
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _bad_line(where, f"not UTF-8: {error.reason} at byte {error.start}") from error
    try:
        item = json.loads(text)
        # JSON can spell half of a surrogate pair (\ud800), which is no text that a tokenizer could take.
        if "\\u" in text:
            json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise _bad_line(where, "half of a surrogate pair, which is no text") from error
    except (ValueError, RecursionError) as error:
        raise _bad_line(where, f"not JSON: {error}") from error
    return item


def _message(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise _bad_line(where, "a message without a role")
    calls_a_tool = isinstance(message.get("tool_calls"), list) and message["tool_calls"]
    if not isinstance(message.get("content"), str | list) and not calls_a_tool:
        raise _bad_line(where, f"a {message['role']} message without content")
    return message


def _text(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise _bad_line(where, f"{name} is not a text: {value!r:.80}")
    return value


def _name(value: Any, name: str, where: str) -> str:
    text = _text(value, name, where)
    if any(unicodedata.category(character) in _UNPRINTABLE for character in text):
        raise _bad_line(where, f"{name} has a control character or a line break in it: {text!r:.80}")
    return text


def _filled_list(value: Any, name: str, where: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise _bad_line(where, f"{name} is not a list with something in it")
    return value


def _listed(given: list[str]) -> str:
    return " and ".join(given) if given else "none"


def _bad_line(where: str, why: str) -> UsageError:
    return UsageError(
        "a line of the prompts file is not a prompt",
        seen=f"{where}: {why}",
        remedy='write {"id": "a", "category": "chat", "messages": [{"role": "user", "content": "Hi"}]}',
    )
