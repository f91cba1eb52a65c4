"""Small tokenizers in folders, for tests that change one thing of them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = ("<|end|>", "<|start|>", "<|mask|>")

_TEXTS = (
    "the quick brown fox jumps over the lazy dog",
    "she sells sea shells; 2026 and 1999 and 200 and 20",
    "caf\u00e9 na\u00efve \u4f60\u597d Hello World HELLO",
    "    return x\n\n    return y\n",
)


def byte_level_bpe(*, digits: str = "together") -> dict[str, Any]:
    """tokenizer.json of a trained byte-level BPE; `digits` are kept `together` or taken `single`."""
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=False), byte_level]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TEXTS * 3, trainer)
    document: dict[str, Any] = json.loads(tokenizer.to_str())
    document["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = digits == "single"
    return document


def added(number: int, content: str, **flags: bool) -> dict[str, Any]:
    """An entry of `added_tokens`."""
    off = dict.fromkeys(("special", "normalized", "lstrip", "rstrip", "single_word"), False)
    return {"id": number, "content": content, **off, **flags}


def write(folder: Path, document: Any, **others: Any) -> Path:
    """A folder with this tokenizer.json and, by stem, further JSON files."""
    folder.mkdir(parents=True, exist_ok=True)
    for stem, content in {"tokenizer": document, **others}.items():
        (folder / f"{stem}.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return folder


def changed(document: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """A copy with sections replaced."""
    return copy.deepcopy(document) | sections


def swapped(document: dict[str, Any], one: int, another: int) -> dict[str, Any]:
    """A copy in which two vocabulary entries have changed places."""
    copied = copy.deepcopy(document)
    vocab = copied["model"]["vocab"]
    text_of = {number: text for text, number in vocab.items()}
    vocab[text_of[one]], vocab[text_of[another]] = another, one
    return copied
