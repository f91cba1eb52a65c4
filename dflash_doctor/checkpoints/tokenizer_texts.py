"""Texts on which tokenizers part: a fixed battery, and the pieces from which more are generated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

BATTERY = (
    "Hello world",
    "The quick brown fox doesn't jump; it's 'lazy'.",
    "  leading, trailing  ",
    "a b  c   d    e",
    "line\nline\n\nline\r\nline\r",
    "\ttabs\t\tand \t mixed",
    "\u00a0\u2003\u3000wide spaces\u200b\u2028\u2029",
    "12345678901234567890",
    "3.14159 1,000,000 -7 1e-9 0x1F 2026-01-31 12:34:56",
    "\u0663\u0664\u0665 \u00b2\u00bd \u2167",
    "def f(x: int) -> str:\n    return f'{x!r}'  # why\n",
    "#include <stdio.h>\nint main(void){return a[i++]->b&&!c;}",
    '{"key": [1, 2.5, null], "\\u00e9": "\\n"}',
    "<div class='x'>&nbsp;</div> https://example.com/a?b=c&d=%20#e",
    "\\frac{a}{b} \\sum_{i=1}^{n} x_i^2",
    "snake_case camelCase HTTPServer __init__ a-b a/b",
    "don't DON'T I'll we've \u2019s",
    "caf\u00e9 cafe\u0301 \u00c5 A\u030a \u1e9b\u0323",
    "\ufb01\u2460\uff21\uff22\uff23 \u212b \u2126",
    "\u00df \u0130\u0131 \u01c5 STRASSE \u03c2\u03c3",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \u3053\u3093\u306b\u3061\u306f \uc548\ub155",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u202babc\u202c \u200f",
    "\U0001f600 \U0001f469\u200d\U0001f4bb \U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea \u2764\ufe0f",
    "\x00\x01\x07\x08\x1b[0m\x7f\u0085",
    "\ufeffbom \ufffd \U0010ffff \ue000",
    "zalgo z\u0335\u0321\u0322\u0327\u0328",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa !!!!!!!!!!!! ------------ ........",
    "<|im_start|>user\nhi<|im_end|>\n<think>\n\n</think>\n\n[INST] <s> </s> <unk> [MASK]",
)

_CHARACTERS = (
    "a0 \nAb1.,'z9-_\t\r\"!?()[]{}<>/\\|@#$%^&*+=~`:;"
    "\u00e9\u00df\u0130\u00bd\u00b2\u0301\u030a\u0323\u00a0\u2003\u3000\u200b\u200d\u200e\u200f\u2028\u202b\u2019"
    "\ufeff\ufffd\ufe0f\u4f60\u3042\u30a2\uff21\ufb01\uac00\u0928\u094d\u0e31\u05d0\u0645\u0663\u1100\u1161"
    "\x00\x01\x1b\x7f\u0085\u2581\u0120\u010a\U0001f600\U0001f469\U0001f3fd\U0001f1e9\U0001d400\ue000\U0010ffff"
)

_PIECES = (
    "the",
    " the",
    "The",
    "123",
    "1234567",
    "   ",
    "\n\n",
    "\r\n",
    "\n    ",
    "'s",
    "'LL",
    "e\u0301",
    "\U0001f469\u200d\U0001f4bb",
    "\U0001f44d\U0001f3fd",
    "\u4f60\u597d",
    "\u0645\u0631\u062d\u0628\u0627",
    "==",
    "->",
    "();",
    "_x",
    "https://",
)


def pieces(more: Sequence[str]) -> tuple[str, ...]:
    """What generated texts are put together from, simplest first: single characters, then longer ones."""
    return tuple(dict.fromkeys((*_CHARACTERS, *_PIECES, *more)))


def fixed_texts(special_texts: Sequence[str], hints: Sequence[str]) -> Iterator[str]:
    """The battery, texts worth trying, and each added token as it can turn up in a user's text."""
    yield from BATTERY
    yield from hints
    for text in special_texts:
        yield text
        yield f"a{text}b"
        yield f"a {text} {text}\n{text[:-1]}"
