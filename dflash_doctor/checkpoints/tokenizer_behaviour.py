"""Looks for the smallest text that two tokenizers cut differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dflash_doctor.checkpoints.files import shown
from dflash_doctor.contract.tokenizers import TokenizationDifference

FIXED = (
    "Hello, world!", " leading and trailing ", "two  spaces   three", "tabs\tand\nlines\r\n\n\n",
    "12345678901", "3.14159 1,000,000", "0x1F 1e-5 v2.0", "don't we'll I'd",
    "snake_case camelCase SCREAMING", "def f(x):\n    return x * 2\n", "{\"key\": [1, 2.5, null]}",
    "<div class='a'>&amp;</div>", "naïve café Ångström", "cafe\u0301 n\u0303", "ﬁ ½ Ⅷ ①",
    "日本語のテキスト", "한국어", "العربية", "עברית", "हिन्दी", "ไทย",
    "emoji 😀 👩\u200d👩\u200d👧 🏳\ufe0f", "zero\u200bwidth\ufeff", "\u00a0nbsp\u2003em",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "…—“quotes”",
)  # fmt: skip
"""Texts of every kind that tokenizers have disagreed on."""
_PIECES = (
    "a", "b", "A", "1", "2", "0", " ", "  ", "\n", "\t", "\r\n", ".", ",", "'", "'s", "_", "-", "(",
    "{", "\\", "é", "e\u0301", "ß", "İ", "日", "語", "한", "ا", "א", "हि", "ไ", "😀", "👩\u200d👧",
    "\u200d", "\u200b", "\u00a0", "ﬁ", "½", "Ⅷ", "Ω", "\u0000", "\u001b", "\ufffd", "the", "ing",
    "return", "123", "http://",
)  # fmt: skip
"""What generated texts are put together from; the simplest come first, for shrinking goes that way."""
_MAX_PIECES = 12
_MAX_SPECIALS = 64

Encode = Callable[[str], tuple[int, ...]]


def open_encoder(raw: bytes) -> Any:
    """A `tokenizers.Tokenizer` of a file's bytes.

    Raises:
        ValueError: the library does not take the file; also where its own code gave up.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_buffer(raw)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of the library's native code is no Exception
        raise ValueError(shown(f"{type(error).__name__}: {error}")) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def find_difference(
    target: Any, draft: Any, *, specials: Sequence[str], max_examples: int
) -> tuple[int, TokenizationDifference | None]:
    """How many texts were tried, and the smallest on which the two differ.

    Args:
        target: from `open_encoder`.
        draft: likewise.
        specials: added tokens of both: users write them into their text.
        max_examples: generated texts, at most.
    """
    tried = 0

    def differs(text: str) -> bool:
        nonlocal tried
        tried += 1
        return _ids(target, text) != _ids(draft, text)

    pieces = (*_PIECES, *specials[:_MAX_SPECIALS])
    fixed = next((text for text in (*FIXED, *specials[:_MAX_SPECIALS]) if differs(text)), None)
    found = [] if fixed is None else [_without_needless(fixed, differs)]
    generated = _generated(pieces, differs, max_examples)
    if generated is not None:
        found.append(generated)
    if not found:
        return tried, None
    text = min(found, key=lambda item: (len(item), item))
    return tried, TokenizationDifference(
        text=text,
        target_tokens=tuple(target.encode(text, add_special_tokens=False).tokens),
        draft_tokens=tuple(draft.encode(text, add_special_tokens=False).tokens),
        target_ids=_ids(target, text),
        draft_ids=_ids(draft, text),
    )


def _ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    """Ids of a text; a text that a tokenizer refuses differs from any that another takes."""
    try:
        return tuple(tokenizer.encode(text, add_special_tokens=False).ids)
    except Exception:
        return (-1,)


def _generated(pieces: Sequence[str], differs: Callable[[str], bool], max_examples: int) -> str | None:
    """The smallest generated text that differs, by Hypothesis's shrinking; `None` where none was found."""
    from hypothesis import HealthCheck, find, settings
    from hypothesis import strategies as st
    from hypothesis.errors import NoSuchExample

    texts = st.lists(st.sampled_from(pieces), min_size=1, max_size=_MAX_PIECES).map("".join)
    quiet = settings(
        max_examples=max_examples,
        database=None,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    try:
        return find(texts, differs, settings=quiet)
    except NoSuchExample:
        return None


def _without_needless(text: str, differs: Callable[[str], bool]) -> str:
    """The text with everything taken out that the difference does not need."""
    size = len(text) // 2
    while size:
        start = 0
        while start < len(text):
            shorter = text[:start] + text[start + size :]
            if shorter and differs(shorter):
                text = shorter
            else:
                start += size
        size //= 2
    return text
