"""DFlash2, written plainly: DFlash with short convolutions along the block and a choice among candidates.

Each sublayer (attention, MLP) stands between two causal convolutions over the slots of its own block: one on
its normalised input, one on its output before the residual. A learnt kernel per channel is corrected per slot
and group of channels by a projection of the normalised input. The context is not convolved. The anchor's slot
takes part as any other, so slot 1 already sees the last committed token through the first tap.

The head's `selector_top_k` best tokens of each slot are candidates. Left to right, a candidate's logit gains
a bilinear term in the token before it (the anchor for the first slot, then the token chosen), weighted by the
slot's final hidden state; the best sum is drafted.

Tensor names and config keys are those of z-lab's checkpoints (`DFlash2DraftModel`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dflash_doctor.errors import UsageError
from dflash_doctor.reference.config import DrafterConfig
from dflash_doctor.reference.dflash import Drafter, DrafterLayer, Geometry, RMSNorm
from dflash_doctor.reference.rotary import Rotary


class GroupedConv(nn.Module):
    """The pair of convolutions around one sublayer."""

    def __init__(self, hidden_size: int, taps: int, group_size: int) -> None:
        super().__init__()
        self.taps = taps
        self.num_groups = hidden_size // group_size
        self.base_kernel = nn.Parameter(torch.zeros(2, taps, hidden_size))
        self.kernel_projection = nn.Linear(hidden_size, 2 * taps * self.num_groups, bias=False)

    def corrections(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What x [..., hidden] adds to the kernel on either side, [..., taps, groups] each."""
        both = self.kernel_projection(x).view(*x.shape[:-1], 2, self.taps, self.num_groups)
        return both[..., 0, :, :], both[..., 1, :, :]

    def forward(self, x: Tensor, correction: Tensor, side: int, width: int) -> Tensor:
        """Same shape as x. Tap k reads the slot k places before, and nothing before slot 0 of a block.

        Sums are in float32 and rounded once, as vLLM's CUDA kernel does; z-lab's code and vLLM's CPU path
        round every product.

        Args:
            x: [B, A * W, hidden].
            correction: [B, A * W, taps, groups].
            side: 0 before the sublayer, 1 behind it.
            width: W, slots of a block.
        """
        batch, rows, size = x.shape
        groups = self.num_groups
        blocks = x.float().view(batch, rows // width, width, groups, size // groups)
        kernels = self.base_kernel[side].float().view(self.taps, groups, size // groups)
        added = correction.float().view(batch, rows // width, width, self.taps, groups, 1)
        total = torch.zeros_like(blocks)
        for tap in range(min(self.taps, width)):
            coefficient = kernels[tap] + added[:, :, tap:, tap]
            total[:, :, tap:] += coefficient * blocks[:, :, : width - tap]
        return total.view_as(x).to(x.dtype)


class DrafterLayer2(DrafterLayer):
    """DFlash's layer with a pair of convolutions around each sublayer."""

    def __init__(self, config: DrafterConfig, index: int, taps: int, group_size: int) -> None:
        super().__init__(config, index)
        self.attention_conv = GroupedConv(config.hidden_size, taps, group_size)
        self.mlp_conv = GroupedConv(config.hidden_size, taps, group_size)

    def forward(
        self, block: Tensor, context: Tensor, place: Geometry, rotary: Rotary, context_norm: RMSNorm | None
    ) -> Tensor:
        """Queries, and the block's own keys and values, come from the convolved input."""
        conv, width = self.attention_conv, place.width
        inner = self.input_layernorm(block)
        before, behind = conv.corrections(inner)
        inner = self.self_attn(conv(inner, before, 0, width), context, place, rotary, context_norm)
        block = block + conv(inner, behind, 1, width)

        conv = self.mlp_conv
        inner = self.post_attention_layernorm(block)
        before, behind = conv.corrections(inner)
        inner = self.mlp(conv(inner, before, 0, width))
        output: Tensor = block + conv(inner, behind, 1, width)
        return output


class CandidateSelector(nn.Module):
    """Chooses one of the head's best tokens per slot, in the light of the token before it."""

    def __init__(self, hidden_size: int, vocab_size: int, rank: int, top_k: int) -> None:
        super().__init__()
        self.top_k = top_k
        self.predecessor_codebook = nn.Parameter(torch.zeros(vocab_size, rank))
        self.successor_codebook = nn.Parameter(torch.zeros(vocab_size, rank))
        self.hidden_projection = nn.Linear(hidden_size, rank, bias=False)

    def select(self, logits: Tensor, hidden: Tensor, anchor_ids: Tensor) -> Tensor:
        """Draft token ids [N, K], greedy.

        The bilinear term is computed in the drafter's dtype and added in float32, as vLLM does.

        Args:
            logits: [N, K, vocabulary] of the head, scaled and capped.
            hidden: [N, K, hidden] final hidden states of the same slots.
            anchor_ids: [N] last committed token of each block.
        """
        best, candidates = logits.topk(self.top_k, dim=-1)
        weights = self.hidden_projection(hidden)
        successors = self.successor_codebook[candidates]
        previous, chosen = anchor_ids, []
        for slot in range(logits.shape[1]):
            wanted = self.predecessor_codebook[previous] * weights[:, slot]
            fit = torch.einsum("nr,nkr->nk", wanted, successors[:, slot])
            index = (best[:, slot].float() + fit.float()).argmax(-1, keepdim=True)
            previous = candidates[:, slot].gather(-1, index).squeeze(-1)
            chosen.append(previous)
        return torch.stack(chosen, dim=1)


class Drafter2(Drafter):
    """The drafter without embedding and head."""

    def __init__(self, config: DrafterConfig) -> None:
        """An untrained drafter; its convolutions yield zero until tensors are loaded.

        Raises:
            UsageError: the config lacks one of the four sizes, or they do not fit each other.
        """
        super().__init__(config)
        taps, group = _size(config, "conv_kernel_size"), _size(config, "conv_group_size")
        rank, top_k = _size(config, "selector_rank"), _size(config, "selector_top_k")
        rows = _size(config, "vocab_size")
        if config.hidden_size % group:
            raise _unfit(f"conv_group_size {group}, hidden_size {config.hidden_size}: not a multiple")
        if top_k > rows:
            raise _unfit(f"selector_top_k {top_k}, vocab_size {rows}: fewer tokens than candidates")
        self.layers = nn.ModuleList(
            DrafterLayer2(config, index, taps, group) for index in range(config.num_layers)
        )
        self.candidate_selector = CandidateSelector(config.hidden_size, rows, rank, top_k)

    def select(self, logits: Tensor, hidden: Tensor, anchor_ids: Tensor) -> Tensor:
        """Draft token ids [N, K] from logits [N, K, vocabulary], hidden [N, K, hidden] and anchors [N]."""
        return self.candidate_selector.select(logits, hidden, anchor_ids)


def drafter_of(config: DrafterConfig) -> Drafter:
    """An untrained drafter of the kind that the config describes.

    Raises:
        UsageError: as in `Drafter2`.
    """
    return Drafter2(config) if config.is_dflash2 else Drafter(config)


def _size(config: DrafterConfig, name: str) -> int:
    value: int | None = getattr(config, name)
    if value is None or value < 1:
        raise _unfit(f"{name} is {value}")
    return value


def _unfit(seen: str) -> UsageError:
    return UsageError(
        "the draft config describes no DFlash2 drafter",
        seen=seen,
        remedy="restore conv_kernel_size, conv_group_size, selector_rank, selector_top_k and vocab_size from "
        "the original release; no engine has defaults for them",
    )
