"""Trains the tiny target: a Qwen3 decoder on the synthetic dialogues."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dflash_doctor.tinypair.shape import PairShape, Recipe

Encoded = tuple[list[int], int]
"""Token ids of a dialogue, and how many of them are prompt."""

_PROMPT_WEIGHT = 0.1
_CLIP_NORM = 1.0
_WEIGHT_DECAY = 0.1
_BETAS = (0.9, 0.98)
_FLAT_SHARE = 0.6
"""Of the steps, those at the peak rate before the cosine begins."""
_WARM_UP_STEPS = 50
_DECODED_TOGETHER = 64
_SHOWN_STEPS = 50
"""Progress shows the mean over so many: batches of one length, so of few categories, differ widely."""


def build_target(shape: PairShape) -> Any:
    """An untrained Transformers Qwen3 model of this shape, in float32."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        **{k: v for k, v in shape.target_config().items() if k not in ("dtype", "torch_dtype")}
    )
    return Qwen3ForCausalLM(config).float()


def train_target(
    model: Any,
    examples: Sequence[Encoded],
    recipe: Recipe,
    *,
    seed: int,
    report: Callable[[int, int, float], None],
) -> float:
    """Train in place; returns the mean answer loss of the last tenth of the steps, in nats a token.

    Args:
        model: from `build_target`.
        examples: encoded dialogues.
        recipe: steps, batch size and peak rate.
        seed: of the batch order.
        report: called with (step, steps, mean answer loss of the last steps).
    """
    optimizer = adamw(model, recipe.target_peak_lr)
    batches = _batches(examples, recipe.target_batch, seed=seed)
    losses = []
    model.train()
    for step in range(recipe.target_steps):
        set_rate(optimizer, recipe.target_peak_lr, step, recipe.target_steps)
        tokens, weights = _padded(next(batches))
        logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
        loss = functional.cross_entropy(
            logits.flatten(0, 1).float(), tokens[:, 1:].flatten(), reduction="none"
        ).view(weights.shape)
        mean = (loss * weights).sum() / weights.sum()
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(mean)
        torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP_NORM)
        optimizer.step()
        answers = weights == 1
        losses.append(float(loss.detach()[answers].mean()))
        report(step + 1, recipe.target_steps, _mean(losses[-_SHOWN_STEPS:]))
    model.eval()
    return _mean(losses[-max(1, len(losses) // 10) :])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def adamw(model: torch.nn.Module, peak_rate: float) -> torch.optim.Optimizer:
    """AdamW with weight decay on matrices only."""
    matrices = [p for p in model.parameters() if p.requires_grad and p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.requires_grad and p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": _WEIGHT_DECAY},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=peak_rate, betas=_BETAS)


def set_rate(optimizer: torch.optim.Optimizer, peak: float, step: int, num_steps: int) -> None:
    """Linear warm-up, flat, then cosine to a twentieth."""
    warm_up = min(_WARM_UP_STEPS, max(1, num_steps // 4))
    flat_end = _FLAT_SHARE * num_steps
    factor = min(1.0, (step + 1) / warm_up)
    if step > flat_end:
        progress = (step - flat_end) / max(1.0, num_steps - flat_end)
        factor *= 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * progress))
    for group in optimizer.param_groups:
        group["lr"] = peak * factor


def _batches(examples: Sequence[Encoded], size: int, *, seed: int) -> Any:
    """Endless batches of similar length, so that little is padding."""
    generator = random.Random(seed)
    pool = 32 * size
    while True:
        order = generator.sample(range(len(examples)), len(examples))
        for start in range(0, len(order), pool):
            chunk = sorted(order[start : start + pool], key=lambda index: len(examples[index][0]))
            groups = [chunk[at : at + size] for at in range(0, len(chunk), size)]
            generator.shuffle(groups)
            for group in groups:
                yield [examples[index] for index in group]


def _padded(batch: Sequence[Encoded]) -> tuple[Tensor, Tensor]:
    """Token ids [B, L] and the loss weight of each predicted token [B, L - 1]."""
    length = max(len(ids) for ids, _ in batch)
    tokens = torch.zeros(len(batch), length, dtype=torch.long)
    weights = torch.zeros(len(batch), length - 1)
    for row, (ids, num_prompt) in enumerate(batch):
        tokens[row, : len(ids)] = torch.tensor(ids)
        weights[row, : num_prompt - 1] = _PROMPT_WEIGHT
        weights[row, num_prompt - 1 : len(ids) - 1] = 1.0
    return tokens, weights


@torch.inference_mode()
def complete(
    model: Any,
    prompts: Sequence[list[int]],
    *,
    end_id: int,
    max_tokens: int,
    report: Callable[[int, int], None] = lambda *_: None,
) -> list[list[int]]:
    """Greedy answers of the target, each up to and with its end token.

    Prompts of equal length are decoded together, so no padding can change an answer.

    Args:
        model: a Transformers causal language model in evaluation mode.
        prompts: token ids.
        end_id: ends an answer.
        max_tokens: longest answer.
        report: called with (prompts answered, prompts).
    """
    answers: list[list[int]] = [[] for _ in prompts]
    by_length: dict[int, list[int]] = {}
    for index, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(index)
    done = 0
    for members in by_length.values():
        for start in range(0, len(members), _DECODED_TOGETHER):
            group = members[start : start + _DECODED_TOGETHER]
            decoded = _decode(model, [prompts[index] for index in group], end_id, max_tokens)
            for index, ids in zip(group, decoded, strict=True):
                answers[index] = ids
            done += len(group)
            report(done, len(prompts))
    return answers


def _decode(model: Any, prompts: Sequence[list[int]], end_id: int, max_tokens: int) -> list[list[int]]:
    tokens = torch.tensor(prompts)
    output = model(input_ids=tokens, use_cache=True)
    finished = torch.zeros(len(prompts), dtype=torch.bool)
    columns = []
    for _ in range(max_tokens):
        following = output.logits[:, -1].argmax(-1)
        columns.append(following)
        finished |= following == end_id
        if bool(finished.all()):
            break
        output = model(input_ids=following[:, None], past_key_values=output.past_key_values, use_cache=True)
    rows = torch.stack(columns, dim=1).tolist()
    return [row[: row.index(end_id) + 1] if end_id in row else row for row in rows]
