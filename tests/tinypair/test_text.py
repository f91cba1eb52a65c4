"""The tokenizer keeps every text, and the template writes what was trained on."""

from __future__ import annotations

import json
from pathlib import Path

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.tinypair.corpus import CATEGORIES, dialogues
from dflash_doctor.tinypair.text import (
    CHAT_TEMPLATE,
    END,
    END_OF_TEXT,
    MASK,
    SPECIAL_TOKENS,
    START,
    conversation_text,
    save_tokenizer,
    train_tokenizer,
)

BUNDLED_TEMPLATE = bundled_fixtures() / "tiny_pair" / "target" / "chat_template.jinja"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [
        "".join(conversation_text(item.turns))
        for category in CATEGORIES
        for item in dialogues(category, 200, seed=0)
    ]
    return train_tokenizer(texts, vocab_size=1024)


@given(st.text())
def test_tokenizer_when_it_decodes_what_it_encoded_then_gives_the_text(
    tokenizer: Tokenizer, text: str
) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_tokenizer_when_trained_then_keeps_digits_single(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("Mia has 1234 stickers.").tokens
    assert [token for token in tokens if any(letter.isdigit() for letter in token)] == ["1", "2", "3", "4"]


def test_tokenizer_when_trained_then_has_its_size_and_special_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.get_vocab_size() == 1024
    assert [tokenizer.token_to_id(name) for name in SPECIAL_TOKENS] == [END_OF_TEXT, START, END, MASK]
    assert tokenizer.encode("<think>").ids == [tokenizer.token_to_id("<think>")]


def test_tokenizer_when_special_tokens_are_skipped_then_thinking_markers_stay(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<think>\nhm\n</think>\n\nYes<|im_end|>").ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<think>\nhm\n</think>\n\nYes"


def test_save_tokenizer_when_read_again_then_encodes_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    save_tokenizer(tokenizer, tmp_path)
    again = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "<|im_start|>user\nMia has 7 coins.<|im_end|>\n<think>"
    assert again.encode(text).ids == tokenizer.encode(text).ids
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["eos_token"] == "<|im_end|>"
    assert (tmp_path / "chat_template.jinja").read_text() == CHAT_TEMPLATE


@pytest.mark.parametrize("source", [CHAT_TEMPLATE, BUNDLED_TEMPLATE.read_text()], ids=["built", "bundled"])
def test_chat_template_when_rendered_then_equals_the_text_of_training(source: str) -> None:
    template = jinja2.Environment().from_string(source)
    item = next(item for item in dialogues("chat", 50, seed=0) if len(item.turns) == 4)
    without, _ = conversation_text(item.turns)
    assert (
        template.render(messages=item.messages, add_generation_prompt=True, enable_thinking=False) == without
    )
    thinking, answer = conversation_text(item.turns, thinking="hm")
    assert template.render(messages=item.messages, add_generation_prompt=True) == thinking
    assert without == thinking + "<think>\n\n</think>\n\n"
    assert answer.startswith("<think>\nhm\n</think>\n\n")


@pytest.mark.parametrize("source", [CHAT_TEMPLATE, BUNDLED_TEMPLATE.read_text()], ids=["built", "bundled"])
def test_chat_template_when_an_earlier_answer_was_thought_about_then_drops_the_thinking(source: str) -> None:
    template = jinja2.Environment().from_string(source)
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello"},
    ]
    assert template.render(messages=messages) == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n"
    )
