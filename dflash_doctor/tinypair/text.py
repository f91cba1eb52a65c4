"""Tokenizer and chat template of a tiny pair."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>")
THINKING_TOKENS = ("<think>", "</think>")
END_OF_TEXT, START, END, MASK = range(4)

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{%- set content = message.content %}"
    "{%- if message.role == 'assistant' and '</think>' in content %}"
    "{%- set content = content.split('</think>')[-1].lstrip('\\n') %}"
    "{%- endif %}"
    "{{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}"
    "{%- endif %}"
    "{%- endif %}"
)
"""ChatML with Qwen3's switch: thinking off appends an empty thinking block."""

EMPTY_THINKING = "<think>\n\n</think>\n\n"


def train_tokenizer(texts: Iterable[str], *, vocab_size: int) -> Tokenizer:
    """A byte-level BPE with single digits; special tokens have the lowest ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[*SPECIAL_TOKENS, *THINKING_TOKENS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # Thinking markers are ordinary text to a reader: kept when special tokens are skipped.
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in THINKING_TOKENS])
    # Read again: the object in memory would still skip them as special, the written file does not.
    return Tokenizer.from_str(tokenizer.to_str())


def conversation_text(turns: Sequence[str], *, thinking: str | None = None) -> tuple[str, str]:
    """Prompt and answer of a dialogue as the chat template writes them.

    Args:
        turns: user and assistant in alternation, the last one being the answer.
        thinking: text of the thinking block; `None` for the empty block of thinking off.
    """
    roles = ("user", "assistant")
    prompt = "".join(
        f"<|im_start|>{roles[index % 2]}\n{text}<|im_end|>\n" for index, text in enumerate(turns[:-1])
    )
    prompt += "<|im_start|>assistant\n"
    if thinking is None:
        return prompt + EMPTY_THINKING, turns[-1] + "<|im_end|>"
    return prompt, f"<think>\n{thinking}\n</think>\n\n{turns[-1]}<|im_end|>"


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json, its config and the chat template."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {
        "backend": "tokenizers",
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "model_max_length": 512,
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "TokenizersBackend",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
