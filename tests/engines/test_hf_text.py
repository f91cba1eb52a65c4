"""Conversations become token ids as the engine's own tokenizer and template make them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.engines.base import Conversation
from dflash_doctor.engines.hf_text import HfText
from dflash_doctor.errors import UsageError

transformers = pytest.importorskip("transformers", reason="the tokenizer is Transformers'")

QUESTION = Conversation(messages=({"role": "user", "content": "How many?"},))


@pytest.fixture(scope="module")
def text() -> HfText:
    return HfText(transformers.AutoTokenizer.from_pretrained(bundled_fixtures() / "tiny_pair" / "target"))


class FakeTokenizer:
    """Encodes each character as its code point and notes what it was asked."""

    def __init__(self, chat_template: Any = "x") -> None:
        self.chat_template = chat_template
        self.asked: list[dict[str, Any]] = []

    def apply_chat_template(self, messages: list[dict[str, Any]], **arguments: Any) -> str:
        self.asked.append(arguments)
        if messages[0]["role"] == "tool":
            raise ValueError("no tools here")
        return "|".join(message["content"] for message in messages)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return ([0] if add_special_tokens else []) + [ord(character) for character in text]


def test_render_when_thinking_is_off_then_the_template_closes_an_empty_block(text: HfText) -> None:
    off, on, own = (text.render([QUESTION], thinking=mode)[0] for mode in ("off", "on", "template"))
    special = text.special_token_ids()
    assert on == own
    assert off[: len(on)] == on
    added = [token for token in off[len(on) :] if token in (special["<think>"], special["</think>"])]
    assert added == [special["<think>"], special["</think>"]]


@pytest.mark.parametrize(
    ("thinking", "switch"), [("off", {"enable_thinking": False}), ("on", {"enable_thinking": True})]
)
def test_render_when_thinking_is_given_then_the_template_is_told(
    thinking: str, switch: dict[str, bool]
) -> None:
    tokenizer = FakeTokenizer()
    HfText(tokenizer).render([QUESTION], thinking=thinking)
    assert tokenizer.asked == [{"add_generation_prompt": True, "tokenize": False, **switch}]


def test_render_when_thinking_is_left_to_the_template_then_it_is_told_nothing() -> None:
    tokenizer = FakeTokenizer()
    HfText(tokenizer).render([QUESTION], thinking="template")
    assert "enable_thinking" not in tokenizer.asked[0]


def test_render_when_given_messages_and_text_then_only_text_gets_the_tokenizers_special_tokens() -> None:
    rendered = HfText(FakeTokenizer()).render([QUESTION, Conversation(prompt="ab")], thinking="off")
    assert rendered == (tuple(map(ord, "How many?")), (0, ord("a"), ord("b")))


def test_render_when_the_template_refuses_then_the_error_names_its_reason_and_the_roles() -> None:
    conversation = Conversation(messages=({"role": "tool", "content": ""},))
    with pytest.raises(UsageError) as raised:
        HfText(FakeTokenizer()).render([conversation], thinking="off")
    assert "no tools here" in raised.value.seen
    assert "roles tool" in raised.value.seen


@pytest.mark.parametrize(
    ("template", "expected"),
    [("text", "text"), (None, None), ({"default": "d", "rag": "r"}, "d"), ({"rag": "r"}, None)],
)
def test_chat_template_when_there_are_none_one_or_several_then_is_what_render_uses(
    template: Any, expected: str | None
) -> None:
    assert HfText(FakeTokenizer(template)).chat_template() == expected


def test_special_token_ids_when_asked_then_include_the_thinking_markers(text: HfText) -> None:
    special = text.special_token_ids()
    assert special["<|mask|>"] == 3
    assert text.token_texts([special["<think>"], 3]) == {special["<think>"]: "<think>", 3: "<|mask|>"}


def test_decode_when_the_text_has_special_tokens_then_leaves_them_out(text: HfText) -> None:
    ids = text.render([Conversation(prompt="yes<|im_end|>")], thinking="off")[0]
    assert "<|im_end|>" in "".join(text.token_texts(ids).values())
    assert text.decode(ids) == "yes"


@given(st.text(alphabet=st.characters(exclude_characters="<", exclude_categories=("Cs",)), max_size=40))
def test_decode_when_raw_text_was_rendered_then_gives_it_back(text: HfText, written: str) -> None:
    assert text.decode(text.render([Conversation(prompt=written)], thinking="off")[0]) == written
