"""DFlash, written plainly: a small decoder that fills a block of tokens in one pass.

The drafter has no embedding and no head; it borrows the target's. Its context is not text but the
target's hidden states: the outputs of a few target layers (the taps), joined, projected and normalised,
serve as keys and values in every drafter layer. The block's own slots (slot 0 the last committed token,
the others the mask token) attend to that context and to each other, in both directions. The logits at
slot j are the draft of the token at slot j; slot 0 is the anchor and predicts nothing.

Tensor names and config keys are those of z-lab's checkpoints (`DFlashDraftModel`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, kw_only=True)
class DrafterConfig:
    """What the drafter's arithmetic depends on."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    block_size: int
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    """id i is the output of target layer i, which is `hidden_states[i + 1]` in Transformers."""


def read_drafter_config(folder: Path) -> DrafterConfig:
    """The config of a z-lab checkpoint; `rope_parameters` wins over a top-level `rope_theta`."""
    raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    dflash = raw["dflash_config"]
    return DrafterConfig(
        hidden_size=raw["hidden_size"],
        intermediate_size=raw["intermediate_size"],
        num_layers=raw["num_hidden_layers"],
        num_heads=raw["num_attention_heads"],
        num_kv_heads=raw["num_key_value_heads"],
        head_dim=raw["head_dim"],
        rms_norm_eps=raw["rms_norm_eps"],
        rope_theta=raw.get("rope_parameters", {}).get("rope_theta", raw.get("rope_theta", 1e4)),
        block_size=raw.get("block_size") or dflash["block_size"],
        mask_token_id=dflash["mask_token_id"],
        target_layer_ids=tuple(dflash["target_layer_ids"]),
    )


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


def rotate(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Rotary embedding, half-split layout (Su et al. 2021, as in GPT-NeoX).

    Args:
        x: [batch, heads, length, head_dim].
        positions: [batch, length], absolute.
        theta: base of the geometric series of frequencies.
    """
    half = x.shape[-1] // 2
    frequencies = theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = positions[:, None, :, None].float() * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x[..., :half], x[..., half:]
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


class BlockAttention(nn.Module):
    """Queries from the block; keys and values from the context and the block."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.config = config
        wide, narrow = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, wide, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, narrow, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, narrow, bias=False)
        self.o_proj = nn.Linear(wide, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)

    def forward(
        self, block: Tensor, context: Tensor, block_positions: Tensor, context_positions: Tensor, mask: Tensor
    ) -> Tensor:
        """[B, Q, hidden] from block [B, Q, hidden] and context [B, C, hidden].

        `mask` [B, Q, C + Q] is True where a query may look. Keys are the context, then the block.
        """
        source = torch.cat((context, block), dim=1)
        positions = torch.cat((context_positions, block_positions), dim=1)
        theta = self.config.rope_theta
        query = rotate(self.q_norm(self._heads(self.q_proj(block))), block_positions, theta)
        key = rotate(self.k_norm(self._heads(self.k_proj(source))), positions, theta)
        value = self._heads(self.v_proj(source))
        repeats = self.config.num_heads // self.config.num_kv_heads
        mixed = functional.scaled_dot_product_attention(
            query,
            key.repeat_interleave(repeats, dim=1),
            value.repeat_interleave(repeats, dim=1),
            attn_mask=mask[:, None],
        )
        output: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
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

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.self_attn = BlockAttention(config)
        self.mlp = GatedMLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self, block: Tensor, context: Tensor, block_positions: Tensor, context_positions: Tensor, mask: Tensor
    ) -> Tensor:
        """The context is not normalised here: it was, once, behind `fc`."""
        attended = self.self_attn(
            self.input_layernorm(block), context, block_positions, context_positions, mask
        )
        block = block + attended
        output: Tensor = block + self.mlp(self.post_attention_layernorm(block))
        return output


class Drafter(nn.Module):
    """The drafter without embedding and head."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.config = config
        num_taps = len(config.target_layer_ids)
        self.fc = nn.Linear(num_taps * config.hidden_size, config.hidden_size, bias=False)
        self.hidden_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.layers = nn.ModuleList(DrafterLayer(config) for _ in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def context_of(self, features: Tensor) -> Tensor:
        """Context [B, C, hidden] from tap features [B, C, taps * hidden], taps in config order."""
        output: Tensor = self.hidden_norm(self.fc(features))
        return output

    def forward(
        self, block: Tensor, context: Tensor, block_positions: Tensor, context_positions: Tensor, mask: Tensor
    ) -> Tensor:
        """Final hidden states [B, Q, hidden], ready for the target's head.

        Args:
            block: [B, Q, hidden] embeddings of the slots (anchor, mask, mask, ...); Q may hold several
                blocks side by side, kept apart by the mask.
            context: [B, C, hidden] from `context_of`: every committed token before the anchor.
            block_positions: [B, Q] absolute.
            context_positions: [B, C] absolute.
            mask: [B, Q, C + Q], True where a slot may look.
        """
        for layer in self.layers:
            block = layer(block, context, block_positions, context_positions, mask)
        output: Tensor = self.norm(block)
        return output


def load_drafter(folder: str | Path, *, dtype: torch.dtype = torch.float32) -> Drafter:
    """The drafter of a z-lab checkpoint folder.

    Raises:
        RuntimeError: a tensor is missing, left over, or has another shape (torch names it).
    """
    from safetensors.torch import load_file

    place = Path(folder)
    drafter = Drafter(read_drafter_config(place))
    tensors = {}
    for file in sorted(place.glob("*.safetensors")):
        tensors.update(load_file(file))
    drafter.load_state_dict(tensors)
    return drafter.to(dtype).eval()


def tap_features(hidden_states: tuple[Tensor, ...], target_layer_ids: tuple[int, ...]) -> Tensor:
    """Tap features [B, L, taps * hidden] from Transformers' `hidden_states` (embedding first)."""
    return torch.cat([hidden_states[index + 1] for index in target_layer_ids], dim=-1)


@torch.inference_mode()
def draft_block(
    drafter: Drafter, embedding: nn.Embedding, head: nn.Linear, features: Tensor, anchor_id: int
) -> Tensor:
    """Draft logits [block_size - 1, vocabulary] for the tokens after the anchor.

    Args:
        drafter: in evaluation mode.
        embedding: the target's.
        head: the target's.
        features: [C, taps * hidden] of every committed token before the anchor.
        anchor_id: the last committed token, whose features are not known.
    """
    config = drafter.config
    device = features.device
    length, width = features.shape[0], config.block_size
    slots = torch.full((1, width), config.mask_token_id, device=device)
    slots[0, 0] = anchor_id
    hidden = drafter(
        embedding(slots).to(features.dtype),
        drafter.context_of(features[None]),
        torch.arange(length, length + width, device=device)[None],
        torch.arange(length, device=device)[None],
        torch.ones(1, width, length + width, dtype=torch.bool, device=device),
    )
    logits: Tensor = head(hidden[0, 1:])
    return logits
