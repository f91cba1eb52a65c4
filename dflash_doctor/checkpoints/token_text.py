"""What a vocabulary entry stands for, as bytes and as text a person can read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

_MAX_SHOWN = 80
"""Characters of a token's text that a record keeps; hostile files hold tokens of megabytes."""

_BYTE_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_METASPACE = "\u2581"

Alphabet = Literal["byte-level", "metaspace", "text"]
"""How a tokenizer writes bytes into its vocabulary: GPT-2's characters, SentencePiece's, or not at all."""


def alphabet_of(sections: dict[str, Any]) -> Alphabet:
    """How this tokenizer writes bytes.

    Args:
        sections: `normalizer`, `pre_tokenizer` and `decoder` of tokenizer.json.
    """
    parts = list(_components(sections))
    if any(part.get("type") == "ByteLevel" for part in parts):
        return "byte-level"
    if any(
        part.get("type") == "Metaspace" or (part.get("type") == "Replace" and _METASPACE in str(part))
        for part in parts
    ):
        return "metaspace"
    return "text"


def bytes_of(token: str, alphabet: Alphabet) -> bytes:
    """What a vocabulary entry stands for."""
    return _TO_BYTES[alphabet](token)


def readable(data: bytes) -> str:
    """Text for a report: bytes that are no whole character as `\\xe2`, at most 80 characters."""
    # Four bytes make at most one character.
    text = data[: 4 * _MAX_SHOWN + 4].decode("utf-8", errors="backslashreplace")
    return shortened(text)


def shortened(text: str) -> str:
    """A text cut to what a record keeps."""
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def _components(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Every object inside the sections, sequences unrolled; they are nested three deep at most."""
    if depth > 8:
        return
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _components(item, depth + 1)


def _byte_level_alphabet() -> dict[str, int]:
    """The character that stands for each byte in byte-level BPE: `bytes_to_unicode` of GPT-2's encoder.py."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    alphabet = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    return alphabet | {chr(256 + index): byte for index, byte in enumerate(others)}


_BYTE_OF = _byte_level_alphabet()


def _from_byte_level(text: str) -> bytes:
    try:
        return bytes([_BYTE_OF[character] for character in text])
    except KeyError:  # not an entry of the byte alphabet, so literal text
        return text.encode("utf-8", errors="surrogatepass")


def _from_metaspace(text: str) -> bytes:
    if match := _BYTE_FALLBACK.fullmatch(text):
        return bytes([int(match[1], 16)])
    return text.replace(_METASPACE, " ").encode("utf-8", errors="surrogatepass")


def _from_text(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogatepass")


_TO_BYTES: dict[Alphabet, Callable[[str], bytes]] = {
    "byte-level": _from_byte_level,
    "metaspace": _from_metaspace,
    "text": _from_text,
}
