"""Text of a file or a rendering inside a sentence, every character of it visible."""

from __future__ import annotations

import unicodedata

_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def shown(text: str, *, max_characters: int = 120) -> str:
    """The text with what cannot be seen written as Python would write it; a longer one is cut."""
    whole = "".join(_ESCAPES.get(one) or (one if _is_seen(one) else _number(one)) for one in text)
    return whole if len(whole) <= max_characters else whole[:max_characters] + "…"


def quoted(text: str, *, max_characters: int = 120) -> str:
    """The same in single quotes, so that spaces at its ends are seen."""
    return f"'{shown(text, max_characters=max_characters)}'"


def _is_seen(character: str) -> bool:
    """A mark that joins the letter before it looks like another letter, which may be the very difference."""
    return character.isprintable() and not unicodedata.combining(character)


def _number(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
