"""Trains the drafter on what the target itself says, and measures it by walking the target's texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dflash_doctor.reference.config import DrafterConfig
from dflash_doctor.reference.dflash import Drafter
from dflash_doctor.reference.drafting import Borrowed, accepted_at, drafts_at, prepare, walk
from dflash_doctor.reference.knobs import Knobs
from dflash_doctor.reference.loading import DrafterFiles
from dflash_doctor.reference.target import layer_outputs, tap_features
from dflash_doctor.tinypair.shape import PairShape, Recipe
from dflash_doctor.tinypair.target import adamw, set_rate

_POSITION_DECAY = 4.0
"""Loss weight exp(-(k - 1) / 4) at draft position k: an early rejection voids what comes after."""


@dataclass(frozen=True)
class Completed:
    """A prompt, the target's greedy answer, and the target's features of both."""

    tokens: Tensor
    """[L] prompt and answer."""
    num_prompt: int
    features: Tensor
    """[L, taps * hidden]"""


def drafter_config(shape: PairShape) -> DrafterConfig:
    """The drafter's arithmetic for a pair's shape."""
    return DrafterConfig(
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_layers=shape.num_draft_layers,
        num_heads=shape.num_attention_heads,
        num_kv_heads=shape.num_key_value_heads,
        head_dim=shape.head_dim,
        rms_norm_eps=1e-6,
        rope_theta=shape.rope_theta,
        block_size=shape.block_size,
        mask_token_id=shape.mask_token_id,
        target_layer_ids=shape.target_layer_ids,
        causal=(shape.draft_causal,) * shape.num_draft_layers,
        windows=(shape.draft_window,) * shape.num_draft_layers,
    )


def with_features(
    target: Any, token_ids: Sequence[int], num_prompt: int, target_layer_ids: Sequence[int]
) -> Completed:
    """A completed prompt with the features of one target pass."""
    return Completed(
        torch.tensor(list(token_ids)), num_prompt, tap_features(target, token_ids, target_layer_ids)
    )


def train_drafter(
    drafter: Drafter,
    embedding: nn.Embedding,
    head: nn.Linear,
    examples: Sequence[Completed],
    recipe: Recipe,
    *,
    seed: int,
    report: Callable[[int, int, float], None],
) -> None:
    """Train in place against the frozen target's embedding and head.

    Every step draws sequences and, in each, anchors inside the answer; all their blocks are filled in one
    pass, each block seeing the context before its anchor and itself.

    Args:
        drafter: untrained; left in evaluation mode.
        embedding: the target's, its weight without gradient.
        head: the target's, its weight without gradient.
        examples: what the target says, with features.
        recipe: steps, batch, anchors per sequence and peak rate.
        seed: of sequences and anchors.
        report: called with (step, steps, loss).
    """
    generator = random.Random(seed)
    optimizer = adamw(drafter, recipe.draft_peak_lr)
    weights = torch.exp(-torch.arange(drafter.config.block_size - 1) / _POSITION_DECAY)
    usable = [item for item in examples if item.tokens.numel() - item.num_prompt >= 3]
    drafter.train()
    for step in range(recipe.draft_steps):
        set_rate(optimizer, recipe.draft_peak_lr, step, recipe.draft_steps)
        batch = generator.sample(usable, min(recipe.draft_batch, len(usable)))
        anchors = [_draw_anchors(item, recipe.draft_anchors, generator) for item in batch]
        loss = _block_loss(drafter, embedding, head, batch, anchors, weights)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        optimizer.step()
        report(step + 1, recipe.draft_steps, float(loss.detach()))
    drafter.eval()


def _draw_anchors(item: Completed, count: int, generator: random.Random) -> list[int]:
    """Places of committed tokens: any answer token that has one behind it."""
    return [generator.randrange(item.num_prompt, item.tokens.numel() - 1) for _ in range(count)]


def _block_loss(
    drafter: Drafter,
    embedding: nn.Embedding,
    head: nn.Linear,
    batch: Sequence[Completed],
    anchors: Sequence[Sequence[int]],
    weights: Tensor,
) -> Tensor:
    width = drafter.config.block_size
    longest = max(item.tokens.numel() for item in batch)
    features = torch.stack(
        [functional.pad(item.features, (0, 0, 0, longest - item.tokens.numel())) for item in batch]
    )
    # Padded far enough that a block at the last anchor stays inside; padding carries no loss.
    tokens = torch.stack(
        [functional.pad(item.tokens, (0, longest + width - item.tokens.numel()), value=-1) for item in batch]
    )
    starts = torch.tensor([list(row) for row in anchors])
    places = starts[:, :, None] + torch.arange(width)
    block_tokens = tokens.gather(1, places.flatten(1)).view(places.shape)
    slots = torch.full_like(block_tokens, drafter.config.mask_token_id)
    slots[:, :, 0] = block_tokens[:, :, 0]
    hidden = drafter(embedding(slots), drafter.context_of(features), starts)
    logits = head(hidden[:, :, 1:])
    labels = block_tokens[:, :, 1:]
    loss = functional.cross_entropy(
        logits.flatten(0, 2).float(), labels.flatten().clamp(min=0), reduction="none"
    ).view(labels.shape)
    counted = (labels >= 0) * weights
    return (loss * counted).sum() / counted.sum()


@torch.inference_mode()
def accepted_along(drafter: Drafter, target: Any, token_ids: Sequence[int], num_prompt: int) -> list[int]:
    """Accepted draft tokens of each verify step along the target's own greedy text."""
    borrowed = Borrowed(
        embedding=target.get_input_embeddings().weight, head=target.get_output_embeddings().weight
    )
    drafting = prepare(DrafterFiles(drafter=drafter), borrowed, Knobs())
    states, _ = layer_outputs(target, token_ids, drafting.taps)
    tokens = torch.tensor(list(token_ids))
    anchors = torch.arange(num_prompt, len(token_ids) - 1)
    drafts = drafts_at(drafting, states, tokens, anchors)
    return walk(accepted_at(drafts, tokens, anchors).tolist(), num_prompt, len(token_ids))
