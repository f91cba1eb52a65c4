"""Builds a tiny pair from nothing: corpus, tokenizer, target, drafter, test prompts, README, checksums."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dflash_doctor.reference.dflash import Drafter
from dflash_doctor.tinypair.corpus import CATEGORIES, Dialogue, dialogues
from dflash_doctor.tinypair.drafter import Completed, drafter_config, train_drafter, walk, with_features
from dflash_doctor.tinypair.shape import PairShape, Recipe
from dflash_doctor.tinypair.target import build_target, complete, train_target
from dflash_doctor.tinypair.text import END, conversation_text, save_tokenizer, train_tokenizer

Report = Callable[[str, int, int, str], None]
"""Called with (stage, done, total, detail)."""

_MAX_ANSWER_TOKENS = 128
_THINKING_SHARE = 0.25
_TRAIN_SEED, _DRAFT_SEED, _TEST_SEED = 1, 2, 3
"""Offsets that keep the three sets of dialogues apart."""


@dataclass(frozen=True)
class BuiltPair:
    """A finished pair and what it does on unseen prompts."""

    folder: Path
    target_loss: float
    """Nats per answer token at the end of training."""
    acceptance_length: float
    acceptance_length_by_category: dict[str, float]


def build_pair(
    folder: Path,
    *,
    shape: PairShape | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    report: Report = lambda *_: None,
) -> BuiltPair:
    """Build, measure and write a pair.

    Args:
        folder: gets `target/`, `draft/`, `prompts.jsonl`, `README.md` and `SHA256SUMS`.
        shape: sizes; those of the bundled pair by default.
        recipe: how long to train; the bundled pair's by default.
        seed: of everything. With one thread the same seed gives the same bytes.
        report: told about progress.
    """
    shape, recipe = shape or PairShape(), recipe or Recipe()
    torch.manual_seed(seed)
    per_category = max(1, recipe.num_dialogues // len(CATEGORIES))
    corpus = _all(per_category, seed=10 * seed + _TRAIN_SEED)
    tests = _unseen(recipe.num_test_prompts, corpus, seed=10 * seed + _TEST_SEED)
    report("tokenizer", 0, 1, f"{len(corpus)} dialogues")
    tokenizer = train_tokenizer(
        ("".join(conversation_text(item.turns, thinking=item.thinking)) for item in corpus),
        vocab_size=shape.vocab_size,
    )

    def encode(item: Dialogue, thinking: str | None = None) -> tuple[list[int], int]:
        prompt, answer = conversation_text(item.turns, thinking=thinking)
        prompt_ids = tokenizer.encode(prompt).ids
        return prompt_ids + tokenizer.encode(answer).ids, len(prompt_ids)

    generator = random.Random(seed)
    examples = [
        encode(item, item.thinking if generator.random() < _THINKING_SHARE else None) for item in corpus
    ]
    target = build_target(shape)
    loss = train_target(
        target, examples, recipe, seed=seed, report=_reporting(report, "target", "loss {:.3f}")
    )
    # What is served is bfloat16: features, answers and measurements come from the rounded weights.
    target = _rounded(target).eval()
    embedding, head = target.get_input_embeddings(), target.get_output_embeddings()
    drafter = Drafter(drafter_config(shape))
    questions = _all(max(1, recipe.draft_prompts // len(CATEGORIES)), seed=10 * seed + _DRAFT_SEED)
    completed = _completed(target, [encode(item) for item in questions], shape, report, "target's answers")
    heard = _reporting(report, "drafter", "loss {:.3f}")
    train_drafter(drafter, embedding, head, completed, recipe, seed=seed, report=heard)
    drafter = _rounded(drafter).eval()
    measured = _completed(target, [encode(item) for item in tests], shape, report, "measuring")
    lengths = _acceptance(drafter, embedding, head, measured, tests)
    _write(folder, shape, tokenizer, target, drafter, tests)
    built = BuiltPair(folder, loss, lengths.pop("overall"), lengths)
    _write_readme(built, shape, recipe, seed)
    write_checksums(folder)
    return built


def write_checksums(folder: Path) -> Path:
    """SHA256SUMS over every other file below the folder, in name order, as `sha256sum -c` reads it."""
    lines = []
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.name != "SHA256SUMS":
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            lines.append(f"{digest}  {file.relative_to(folder).as_posix()}\n")
    path = folder / "SHA256SUMS"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def _all(per_category: int, *, seed: int) -> list[Dialogue]:
    return [item for category in CATEGORIES for item in dialogues(category, per_category, seed=seed)]


def _unseen(count: int, corpus: Sequence[Dialogue], *, seed: int) -> list[Dialogue]:
    """`count` dialogues of each category whose question stands nowhere in the corpus, if there are so many.

    Small categories run out of new questions; repeats of the corpus then fill up, answered anew.
    """
    known = {item.turns[:-1] for item in corpus}
    found = []
    for category in CATEGORIES:
        pool = dialogues(category, 40 * count, seed=seed)
        fresh = {item.turns[:-1]: item for item in pool if item.turns[:-1] not in known}
        rest = {item.turns[:-1]: item for item in pool if item.turns[:-1] in known}
        found += [*fresh.values(), *rest.values()][:count]
    return found


def _completed(
    target: Any, encoded: Sequence[tuple[list[int], int]], shape: PairShape, report: Report, stage: str
) -> list[Completed]:
    """Prompts with the target's own answers and features."""
    prompts = [ids[:num_prompt] for ids, num_prompt in encoded]
    report(stage, 0, len(prompts), "decoding")
    answers = complete(target, prompts, end_id=END, max_tokens=_MAX_ANSWER_TOKENS)
    found = []
    for index, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        found.append(with_features(target, prompt + answer, len(prompt), shape.target_layer_ids))
        report(stage, index + 1, len(prompts), "features")
    return found


def _acceptance(
    drafter: Drafter, embedding: Any, head: Any, items: Sequence[Completed], tests: Sequence[Dialogue]
) -> dict[str, float]:
    """Pooled acceptance length (bonus included), overall and by category."""
    steps: dict[str, list[int]] = {"overall": []}
    for item, test in zip(items, tests, strict=True):
        accepted = walk(drafter, embedding, head, item)
        steps["overall"] += accepted
        steps.setdefault(test.category, []).extend(accepted)
    return {name: 1 + sum(counts) / len(counts) for name, counts in steps.items() if counts}


def _rounded(model: Any) -> Any:
    """The model with weights as bfloat16 holds them, still computing in float32."""
    return model.bfloat16().float()


def _write(
    folder: Path, shape: PairShape, tokenizer: Any, target: Any, drafter: Drafter, tests: Sequence[Dialogue]
) -> None:
    from safetensors.torch import save_file

    for name, config, tensors in (
        ("target", shape.target_config(), target.state_dict()),
        ("draft", shape.draft_config(), drafter.state_dict()),
    ):
        place = folder / name
        save_tokenizer(tokenizer, place)
        (place / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        weights = {key: value.bfloat16().contiguous() for key, value in tensors.items()}
        save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    generation = {"eos_token_id": END, "pad_token_id": 0, "do_sample": False}
    (folder / "target" / "generation_config.json").write_text(json.dumps(generation) + "\n", encoding="utf-8")
    counts: dict[str, int] = {}
    with (folder / "prompts.jsonl").open("w", encoding="utf-8") as file:
        for test in tests:
            number = counts[test.category] = counts.get(test.category, -1) + 1
            line = {
                "id": f"{test.category}-{number:03d}",
                "category": test.category,
                "messages": list(test.messages),
            }
            file.write(json.dumps(line) + "\n")


def _write_readme(built: BuiltPair, shape: PairShape, recipe: Recipe, seed: int) -> None:
    rows = "\n".join(
        f"| {name} | {value:.2f} |" for name, value in sorted(built.acceptance_length_by_category.items())
    )
    text = f"""# A tiny DFlash pair

Built by `python -m dflash_doctor.tinypair` (seed {seed}) from a synthetic corpus; no outside data.

- target: Qwen3, {shape.num_target_layers} layers, hidden {shape.hidden_size};
  {recipe.target_steps} steps, answer loss {built.target_loss:.3f} nats a token
- drafter: {shape.num_draft_layers} layers, block size {shape.block_size} (so K = {shape.block_size - 1}),
  taps {list(shape.target_layer_ids)}, mask id {shape.mask_token_id}; {recipe.draft_steps} steps

Acceptance length of the reference drafter on `prompts.jsonl`, greedy: **{built.acceptance_length:.2f}**.

| category | acceptance length |
|---|---|
{rows}
"""
    (built.folder / "README.md").write_text(text, encoding="utf-8")


def _reporting(report: Report, stage: str, form: str) -> Callable[[int, int, float], None]:
    return lambda done, total, value: report(stage, done, total, form.format(value))
