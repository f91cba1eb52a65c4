"""DFlash, written plainly: a small decoder that fills a block of tokens in one pass.

The drafter has no embedding and no head; it borrows the target's. Its context is not text but the
target's hidden states: the outputs of a few target layers (the taps), joined, projected and normalised,
serve as keys and values in every drafter layer. The block's own slots (slot 0 the last committed token,
the others the mask token) attend to that context and to each other, in both directions unless the config
says otherwise. The logits at slot j are the draft of the token at slot j; slot 0 is the anchor and predicts
nothing, except in drafters whose every slot predicts the token after it.

Tensor names and config keys are those of z-lab's checkpoints (`DFlashDraftModel`). Several blocks of one
text are filled side by side: they share its context and do not see each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from dflash_doctor.reference.config import DrafterConfig
from dflash_doctor.reference.rotary import Rotary


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """How the drafter's inputs line up with the text. The defaults are right; the rest are known defects."""

    query_shift: int = 0
    """Added to the positions of the block's slots."""
    erased_first: int = 0
    """First so many tokens of the text whose keys and values are zero, as an unwritten cache holds them."""
    erased_of_every: tuple[int, int] | None = None
    """(n, m): keys and values of the first n of every m tokens are zero."""
    context_end: int = 0
    """Last so many tokens before the anchor whose keys and values are missing."""
    context_lag: int = 0
    """Rows hold the features of the token so many places before their own."""
    context_shuffled: bool = False
    """Rows stand in a random order, the same every time."""
    context_key_norm_of: int | None = None
    """Layer whose key norm is used for the context in every layer; `None`: each layer its own."""


ALIGNED = Alignment()


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension, in float32 inside."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Same shape and dtype as x."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


@dataclass(frozen=True)
class Geometry:
    """Where the slots and the context stand, and who sees whom: the same for all layers but for windows."""

    context_positions: Tensor
    """[1, C]"""
    slot_positions: Tensor
    """[B, A * W], as the rotary embedding sees them."""
    anchors: Tensor
    """[B, A]"""
    width: int
    alignment: Alignment

    def sees_context(self, window: int | None) -> Tensor:
        """[B, A * W, C]: a slot sees the text before its anchor, as far back as the window reaches."""
        place = self.context_positions[:, None, :]
        anchor = self.anchors.repeat_interleave(self.width, dim=1)[:, :, None]
        seen = place < anchor - self.alignment.context_end
        if window is not None:
            seen = seen & (self.slot_positions[:, :, None] - place < window)
        return seen

    def written(self) -> Tensor | None:
        """[C, 1] 1 where the context's keys and values are there; `None` where all are."""
        first, every = self.alignment.erased_first, self.alignment.erased_of_every
        place = self.context_positions[0]
        lost = place < first
        if every is not None:
            lost = lost | (place % every[1] < every[0])
        return (~lost)[:, None] if first or every is not None else None

    def sees_block(self, window: int | None, *, causal: bool) -> Tensor:
        """[W, W]: the slots of the own block, all of them unless causal."""
        slot = torch.arange(self.width, device=self.anchors.device)
        distance = slot[:, None] - slot[None, :]
        seen = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
        return seen & (distance.abs() < window) if window is not None else seen


class BlockAttention(nn.Module):
    """Queries from the block; keys and values from the context and the block."""

    def __init__(self, config: DrafterConfig, index: int) -> None:
        super().__init__()
        self.config = config
        self.window = config.windows[index] if config.windows else None
        self.causal = bool(config.causal and config.causal[index])
        wide, narrow = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, wide, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, narrow, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, narrow, bias=False)
        self.o_proj = nn.Linear(wide, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)

    def forward(
        self, block: Tensor, context: Tensor, place: Geometry, rotary: Rotary, context_norm: RMSNorm | None
    ) -> Tensor:
        """[B, A * W, hidden] from block [B, A * W, hidden] and context [B, C, hidden].

        Logits are scaled by 1 / sqrt(head_dim) and normalised in float32 over context and block together.
        """
        config, batch = self.config, block.shape[0]
        kv, width = config.num_kv_heads, place.width
        repeats, slots = config.num_heads // kv, block.shape[1]
        query = rotary(self.q_norm(self._heads(self.q_proj(block))), place.slot_positions)
        own_key = rotary(self.k_norm(self._heads(self.k_proj(block))), place.slot_positions)
        norm = context_norm if context_norm is not None else self.k_norm
        far_key = rotary(norm(self._heads(self.k_proj(context))), place.context_positions)
        own_value, far_value = self._heads(self.v_proj(block)), self._heads(self.v_proj(context))
        written = place.written()
        if written is not None:
            far_key, far_value = far_key * written, far_value * written

        flat = query.reshape(batch, kv, repeats * slots, config.head_dim) * config.head_dim**-0.5
        far = (flat @ far_key.transpose(-1, -2)).view(batch, kv, repeats, slots, -1)
        by_block = flat.view(batch, kv, repeats, -1, width, config.head_dim)
        own = by_block @ own_key.view(batch, kv, 1, -1, width, config.head_dim).transpose(-1, -2)
        far = far.masked_fill(~place.sees_context(self.window)[:, None, None], float("-inf"))
        own = own.masked_fill(~place.sees_block(self.window, causal=self.causal), float("-inf"))
        logits = torch.cat((far, own.view(batch, kv, repeats, slots, width)), dim=-1)
        shares = logits.float().softmax(-1).to(block.dtype)
        of_far, of_own = shares[..., :-width], shares[..., -width:]

        mixed = of_far.reshape(batch, kv, repeats * slots, -1) @ far_value
        mixed = mixed.view(batch, kv, repeats, -1, width, config.head_dim)
        mixed = mixed + of_own.reshape(batch, kv, repeats, -1, width, width) @ own_value.view(
            batch, kv, 1, -1, width, config.head_dim
        )
        joined = mixed.reshape(batch, config.num_heads, slots, config.head_dim).transpose(1, 2).flatten(2)
        output: Tensor = self.o_proj(joined)
        return output

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.config.head_dim).transpose(1, 2)


class GatedMLP(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape as x."""
        output: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return output


class DrafterLayer(nn.Module):
    """Pre-norm attention and MLP with residuals."""

    def __init__(self, config: DrafterConfig, index: int) -> None:
        super().__init__()
        self.self_attn = BlockAttention(config, index)
        self.mlp = GatedMLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self, block: Tensor, context: Tensor, place: Geometry, rotary: Rotary, context_norm: RMSNorm | None
    ) -> Tensor:
        """The context is not normalised here: it was, once, behind `fc`."""
        attended = self.self_attn(self.input_layernorm(block), context, place, rotary, context_norm)
        block = block + attended
        output: Tensor = block + self.mlp(self.post_attention_layernorm(block))
        return output


class Drafter(nn.Module):
    """The drafter without embedding and head."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.config = config
        width = config.target_hidden_size or config.hidden_size
        self.fc = nn.Linear(len(config.target_layer_ids) * width, config.hidden_size, bias=False)
        self.hidden_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.layers = nn.ModuleList(DrafterLayer(config, index) for index in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def context_of(self, features: Tensor) -> Tensor:
        """Context [B, C, hidden] from tap features [B, C, taps * hidden], taps in config order."""
        output: Tensor = self.hidden_norm(self.fc(features))
        return output

    def forward(
        self, slots: Tensor, context: Tensor, anchors: Tensor, alignment: Alignment = ALIGNED
    ) -> Tensor:
        """Final hidden states [B, A, W, hidden], ready for the target's head.

        Args:
            slots: [B, A, W, hidden] embeddings of A blocks of W slots (anchor, mask, mask, ...).
            context: [B, C, hidden] from `context_of`, row i of the token at position i. A block sees the rows
                before its anchor only.
            anchors: [B, A] position of each block's slot 0.
            alignment: defects to put in.
        """
        batch, count, width, size = slots.shape
        offsets = torch.arange(width, device=slots.device) + alignment.query_shift
        place = Geometry(
            context_positions=torch.arange(context.shape[1], device=slots.device)[None],
            slot_positions=(anchors[:, :, None] + offsets).flatten(1),
            anchors=anchors,
            width=width,
            alignment=alignment,
        )
        rotary = Rotary(self.config, slots.device)
        other = alignment.context_key_norm_of
        context_norm = None if other is None else self._key_norm(other)
        if alignment.context_lag:
            rows = torch.arange(context.shape[1], device=slots.device) - alignment.context_lag
            context = context[:, rows.clamp(min=0)]
        if alignment.context_shuffled:
            generator = torch.Generator().manual_seed(0)
            context = context[:, torch.randperm(context.shape[1], generator=generator).to(slots.device)]
        block = slots.reshape(batch, count * width, size)
        for layer in self.layers:
            block = layer(block, context, place, rotary, context_norm)
        output: Tensor = self.norm(block)
        return output.view(batch, count, width, size)

    def _key_norm(self, index: int) -> RMSNorm:
        layer = self.layers[index]
        assert isinstance(layer, DrafterLayer), "all of them are"
        return layer.self_attn.k_norm
