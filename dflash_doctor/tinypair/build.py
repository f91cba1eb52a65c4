"""Builds a tiny pair from nothing: corpus, tokenizer, target, drafter, test prompts, README, checksums."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dflash_doctor.errors import UsageError
from dflash_doctor.reference.dflash import Drafter
from dflash_doctor.tinypair.corpus import CATEGORIES, Dialogue, dialogues
from dflash_doctor.tinypair.drafter import Completed, drafter_config, train_drafter, with_features
from dflash_doctor.tinypair.measure import Acceptance, acceptance_table, measure_pair
from dflash_doctor.tinypair.shape import PairShape, Recipe
from dflash_doctor.tinypair.target import Encoded, build_target, complete, train_target
from dflash_doctor.tinypair.text import END, conversation_text, save_tokenizer, train_tokenizer

Report = Callable[[str, int, int, str], None]
"""Called with (stage, done, total, detail)."""

_THINKING_SHARE = 0.25
"""Of the target's dialogues, those with a thinking text; the drafter sees none, on purpose."""
_TRAIN_SEED, _DRAFT_SEED, _TEST_SEED = 1, 2, 3
"""Offsets that make the three sets of dialogues different draws."""
_POOL_FACTOR = 40
"""Test prompts are the first different ones of so many times as many draws; every category has enough."""
_DRAFT_CARD = """# A tiny DFlash drafter

It drafts for the model in `../target` and no other. It was trained on non-thinking data only. Serve it with
thinking off. The folder above says how it was made and what to expect.
"""
_OWN_FILES = frozenset({"target", "draft", "prompts.jsonl", "README.md", "SHA256SUMS"})


@dataclass(frozen=True, kw_only=True)
class BuiltPair:
    """A finished pair and what its files do on prompts outside the training."""

    folder: Path
    target_loss: float
    """Nats per answer token at the end of training."""
    acceptance: dict[str, Acceptance]
    """Overall, and by category."""


def build_pair(
    folder: Path,
    *,
    shape: PairShape | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    report: Report = lambda *_: None,
) -> BuiltPair:
    """Build, write and measure a pair.

    Args:
        folder: gets `target/`, `draft/`, `prompts.jsonl`, `README.md` and `SHA256SUMS`; an older pair in it
            is replaced, and only once the training is over.
        shape: sizes; those of the bundled pair by default.
        recipe: how long to train; the bundled pair's by default.
        seed: of everything. With one thread the same seed gives the same bytes.
        report: told about progress.

    Raises:
        UsageError: the folder cannot be written or holds something else.
    """
    shape, recipe = shape or PairShape(), recipe or Recipe()
    _claim(folder)
    torch.manual_seed(seed)
    tests = _distinct(recipe.num_test_prompts, seed=10 * seed + _TEST_SEED)
    held_out = {item.questions for item in tests}
    corpus = _others(recipe.num_dialogues, held_out, seed=10 * seed + _TRAIN_SEED)
    tokenizer = train_tokenizer(
        ("".join(conversation_text(item.turns, thinking=item.thinking)) for item in corpus),
        vocab_size=shape.vocab_size,
    )
    report("corpus, tokenizer", 1, 1, f"{len(corpus)} dialogues, {tokenizer.get_vocab_size()} tokens")
    target, loss = _trained_target(tokenizer, corpus, shape, recipe, seed, report)
    asked = _others(recipe.draft_prompts, held_out, seed=10 * seed + _DRAFT_SEED)
    questions = [_encode(tokenizer, item) for item in asked]
    drafter = _trained_drafter(target, questions, shape, recipe, seed, report)
    _write(folder, shape, tokenizer, target, drafter, tests)
    acceptance = measure_pair(
        folder,
        max_tokens=recipe.max_answer_tokens,
        report=lambda done, total: report("measuring", done, total, "prompts"),
    )
    built = BuiltPair(folder=folder, target_loss=loss, acceptance=acceptance)
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


def _claim(folder: Path) -> None:
    """Find out before the training, not after it, that the result has a place."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = sorted({path.name for path in folder.iterdir()} - _OWN_FILES)
        probe = folder / "SHA256SUMS"
        probe.open("a", encoding="utf-8").close()
        if not probe.stat().st_size:
            probe.unlink()
    except OSError as error:
        raise UsageError(
            "the pair's folder cannot be written",
            seen=f"{folder}: {error.strerror or error}",
            remedy="name a folder that can be created or written",
        ) from error
    if others:
        raise UsageError(
            "the pair's folder holds something else",
            seen=f"{folder}: {', '.join(others[:5])}",
            remedy="name a new folder, or one with an older pair",
        )


def _draws(per_category: int, *, seed: int) -> list[Dialogue]:
    return [item for category in CATEGORIES for item in dialogues(category, per_category, seed=seed)]


def _distinct(per_category: int, *, seed: int) -> list[Dialogue]:
    """Dialogues of each category that all ask something different."""
    found: list[Dialogue] = []
    for category in CATEGORIES:
        pool = dialogues(category, _POOL_FACTOR * per_category, seed=seed)
        found += list({item.questions: item for item in pool}.values())[:per_category]
    return found


def _others(count: int, held_out: Collection[tuple[str, ...]], *, seed: int) -> list[Dialogue]:
    """About `count` dialogues, evenly over the categories, without those that ask what is held out."""
    drawn = _draws(max(1, count // len(CATEGORIES)), seed=seed)
    return [item for item in drawn if item.questions not in held_out]


def _encode(tokenizer: Any, item: Dialogue, thinking: str | None = None) -> Encoded:
    """Prompt and answer are encoded apart: a served model starts behind the prompt's own last token."""
    prompt, answer = conversation_text(item.turns, thinking=thinking)
    prompt_ids = tokenizer.encode(prompt).ids
    return prompt_ids + tokenizer.encode(answer).ids, len(prompt_ids)


def _trained_target(
    tokenizer: Any, corpus: Sequence[Dialogue], shape: PairShape, recipe: Recipe, seed: int, report: Report
) -> tuple[Any, float]:
    """The target with its weights as they will be served, and its answer loss in nats a token."""
    generator = random.Random(seed)
    thinking = [item.thinking if generator.random() < _THINKING_SHARE else None for item in corpus]
    examples = [_encode(tokenizer, item, text) for item, text in zip(corpus, thinking, strict=True)]
    target = build_target(shape)
    heard = _reporting(report, "target", "loss {:.3f}")
    loss = train_target(target, examples, recipe, seed=seed, report=heard)
    # What is served is bfloat16: answers and features come from the rounded weights, in float32 arithmetic.
    return target.bfloat16().float().eval().requires_grad_(False), loss


def _trained_drafter(
    target: Any, questions: Sequence[Encoded], shape: PairShape, recipe: Recipe, seed: int, report: Report
) -> Drafter:
    drafter = Drafter(drafter_config(shape))
    train_drafter(
        drafter,
        target.get_input_embeddings(),
        target.get_output_embeddings(),
        _completed(target, questions, shape, recipe, report),
        recipe,
        seed=seed,
        report=_reporting(report, "drafter", "loss {:.3f}"),
    )
    return drafter


def _completed(
    target: Any, encoded: Sequence[Encoded], shape: PairShape, recipe: Recipe, report: Report
) -> list[Completed]:
    """Prompts with the target's own answers and features."""
    prompts = [ids[:num_prompt] for ids, num_prompt in encoded]
    answers = complete(
        target,
        prompts,
        end_id=END,
        max_tokens=recipe.max_answer_tokens,
        report=lambda done, total: report("target's answers", done, total, "prompts"),
    )
    found = []
    for index, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        found.append(with_features(target, prompt + answer, len(prompt), shape.target_layer_ids))
        report("target's features", index + 1, len(prompts), "answers")
    return found


def _write(
    folder: Path, shape: PairShape, tokenizer: Any, target: Any, drafter: Drafter, tests: Sequence[Dialogue]
) -> None:
    from safetensors.torch import save

    for name, config, tensors in (
        ("target", shape.target_config(), target.state_dict()),
        ("draft", shape.draft_config(), drafter.state_dict()),
    ):
        place = folder / name
        save_tokenizer(tokenizer, place)
        (place / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        weights = {key: value.bfloat16().contiguous() for key, value in tensors.items()}
        # As bytes: safetensors' own writer leaves a file that only its owner can read.
        (place / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))
    generation = {"eos_token_id": END, "pad_token_id": 0, "do_sample": False}
    (folder / "draft" / "README.md").write_text(_DRAFT_CARD, encoding="utf-8")
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
    text = f"""# A tiny DFlash pair

Built by `python -m dflash_doctor.tinypair` (seed {seed}) from a synthetic corpus; no outside data or weights.

- target: Qwen3, {shape.num_target_layers} layers, hidden {shape.hidden_size};
  {recipe.target_steps} steps, answer loss {built.target_loss:.3f} nats a token
- drafter: {shape.num_draft_layers} layers, block size {shape.block_size} (so K = {shape.block_size - 1}),
  taps {list(shape.target_layer_ids)}, mask id {shape.mask_token_id}; {recipe.draft_steps} steps
- `prompts.jsonl`: questions on which neither was trained

Acceptance of the reference drafter on `prompts.jsonl`, greedy, float32, at most {recipe.max_answer_tokens}
tokens an answer, as `python -m dflash_doctor.tinypair.measure FOLDER` prints it:

{acceptance_table(built.acceptance)}
"""
    (built.folder / "README.md").write_text(text, encoding="utf-8")


def _reporting(report: Report, stage: str, form: str) -> Callable[[int, int, float], None]:
    return lambda done, total, value: report(stage, done, total, form.format(value))
