"""DFlash, written plainly: a small decoder that fills a block of tokens in one pass.

The drafter has no embedding and no head; it borrows the target's. Its context is not text but the
target's hidden states: the outputs of a few target layers (the taps), joined, projected and normalised,
serve as keys and values in every drafter layer. The block's own slots (slot 0 the last committed token,
the others the mask token) attend to that context and to each other, in both directions. The logits at
slot j are the draft of the token at slot j; slot 0 is the anchor and predicts nothing.

Tensor names and config keys are those of z-lab's checkpoints (`DFlashDraftModel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dflash_doctor.errors import UsageError
from dflash_doctor.reference.config import DrafterConfig, read_drafter_config


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
    """The drafter of a z-lab checkpoint folder, in evaluation mode, every tensor accounted for.

    Raises:
        UsageError: the config cannot be used, there are no weights, or a tensor is missing, left over or
            misshapen (each is named).
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    place = Path(folder)
    drafter = Drafter(read_drafter_config(place))
    files = sorted(place.glob("*.safetensors"))
    tensors: dict[str, Tensor] = {}
    try:
        for file in files:
            tensors.update(load_file(file))
    except (OSError, SafetensorError) as error:
        raise UsageError(
            "the drafter's weights cannot be read", seen=f"{file}: {error}", remedy="copy the file again"
        ) from error
    misfits = _misfits(drafter.state_dict(), tensors)
    if misfits:
        raise UsageError(
            "the drafter's tensors do not fit its config",
            seen=f"{place}: {'; '.join(misfits)}" if files else f"{place}: no *.safetensors file",
            remedy="compare config.json (layers, heads, taps) with the file, or copy the checkpoint again",
        )
    drafter.load_state_dict(tensors)
    return drafter.to(dtype).eval()


def _misfits(wanted: dict[str, Tensor], found: dict[str, Tensor]) -> list[str]:
    lines = [f"{name} is missing" for name in wanted if name not in found]
    lines += [f"{name} is unknown" for name in found if name not in wanted]
    lines += [
        f"{name} is {list(found[name].shape)}, the config says {list(wanted[name].shape)}"
        for name in wanted
        if name in found and found[name].shape != wanted[name].shape
    ]
    return lines


@torch.inference_mode()
def tap_features(target: Any, token_ids: Sequence[int], target_layer_ids: Sequence[int]) -> Tensor:
    """Tap features [L, taps * hidden] of one target pass, taps joined in the order given.

    Taken from the layers themselves: the last entry of Transformers' `hidden_states` is behind the final
    norm, so a tap on the last layer would silently be another quantity there.

    Args:
        target: a Transformers causal language model in evaluation mode.
        token_ids: [L].
        target_layer_ids: id i is the output of layer i.

    Raises:
        UsageError: a tap lies outside the target.
    """
    layers = target.get_decoder().layers
    outside = [index for index in target_layer_ids if not 0 <= index < len(layers)]
    if outside:
        raise UsageError(
            "a tap lies outside the target",
            seen=f"target_layer_ids {outside}, the target has {len(layers)} layers (ids from 0)",
            remedy="name the target that this drafter was trained for",
        )
    outputs: dict[int, Tensor] = {}

    def keep(index: int) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            outputs[index] = output[0] if isinstance(output, tuple) else output

        return hook

    hooks = [layers[index].register_forward_hook(keep(index)) for index in set(target_layer_ids)]
    try:
        target(input_ids=torch.tensor([list(token_ids)], device=target.device), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.cat([outputs[index][0] for index in target_layer_ids], dim=-1)


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
