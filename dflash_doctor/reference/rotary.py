"""Rotary position embedding as a config asks for it (Su et al. 2021)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dflash_doctor.reference.config import DrafterConfig


class Rotary:
    """Rotates queries and keys of one drafter."""

    def __init__(self, config: DrafterConfig, device: torch.device) -> None:
        self._frequencies, self._scale = _frequencies(config, device)
        self._neox = config.neox
        self._dims = config.rotated_dims

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        """Same shape as x.

        Args:
            x: [batch, heads, length, head_dim]; only the first dimensions of a head are rotated where the
                config asks for a part.
            positions: [batch or 1, length], absolute.
        """
        angles = positions[:, None, :, None].float() * self._frequencies
        cos, sin = (angles.cos() * self._scale).to(x.dtype), (angles.sin() * self._scale).to(x.dtype)
        turned, rest = x[..., : self._dims], x[..., self._dims :]
        if self._neox:
            left, right = turned.chunk(2, dim=-1)
            turned = torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)
        else:
            left, right = turned[..., ::2], turned[..., 1::2]
            turned = torch.stack((left * cos - right * sin, right * cos + left * sin), dim=-1).flatten(-2)
        return torch.cat((turned, rest), dim=-1) if rest.shape[-1] else turned


def _frequencies(config: DrafterConfig, device: torch.device) -> tuple[Tensor, float]:
    """[rotated_dims / 2] radians per position, and a factor on sines and cosines."""
    if not config.rope_scaling:
        half = config.rotated_dims // 2
        exponents = torch.arange(half, device=device, dtype=torch.float32) / half
        return config.rope_theta**-exponents, 1.0
    from transformers import Qwen3Config
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    asked: dict[str, Any] = {**config.rope_scaling, "rope_theta": config.rope_theta}
    asked["partial_rotary_factor"] = config.partial_rotary_factor
    source = Qwen3Config(
        head_dim=config.head_dim,
        hidden_size=config.hidden_size,
        num_attention_heads=config.num_heads,
        max_position_embeddings=config.max_position_embeddings or 32768,
        rope_parameters=asked,
    )
    frequencies, scale = ROPE_INIT_FUNCTIONS[asked["rope_type"]](source, device)
    return frequencies.float(), float(scale)
