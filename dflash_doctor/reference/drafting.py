"""Drafts of a whole text at once: at every anchor, with the full context before it.

Greedy verification keeps exactly the target's tokens, so a text that the target wrote can be replayed under
any drafter: what it would draft at every anchor follows from one target pass, and which anchors an engine
would visit follows from the drafts. Nothing is generated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dflash_doctor.errors import UsageError
from dflash_doctor.reference.config import DrafterConfig
from dflash_doctor.reference.dflash import Alignment, Drafter
from dflash_doctor.reference.dflash2 import Drafter2
from dflash_doctor.reference.knobs import Knobs
from dflash_doctor.reference.loading import DrafterFiles

_ELEMENTS_AT_ONCE = 1 << 24
"""Bounds the attention logits and the draft logits held at a time: 64 MB in float32."""


@dataclass(frozen=True, kw_only=True)
class Borrowed:
    """What a drafter takes from its target."""

    embedding: Tensor
    """[vocabulary, hidden]"""
    head: Tensor
    """[vocabulary, hidden]"""


@dataclass(frozen=True, kw_only=True)
class Drafting:
    """A drafter made ready under some knobs."""

    drafter: Drafter
    config: DrafterConfig
    taps: tuple[int, ...]
    embedding: Tensor
    head: Tensor
    target_ids: Tensor | None
    """[draft vocabulary] target id of each head row; `None` where they are the same."""
    embedding_scale: float
    width: int
    """Slots of a block."""
    alignment: Alignment
    max_length: int | None
    num_draft_tokens: int
    slot_offset: int = 0
    features_scaled: float | None = None


def prepare(files: DrafterFiles, borrowed: Borrowed, knobs: Knobs) -> Drafting:
    """The drafter under some knobs; the loaded one is left as it is.

    Raises:
        UsageError: a knob does not fit this drafter.
    """
    config = _changed(files.drafter.config, knobs)
    drafter = _with_tensors(files.drafter, config, knobs)
    embedding = borrowed.embedding
    if files.embedding is not None and knobs.embedding != "target":
        embedding = files.embedding
    head, target_ids = _head(files, borrowed, knobs)
    first = next(drafter.parameters())
    num_tokens = knobs.num_draft_tokens or config.num_draft_tokens
    return Drafting(
        drafter=drafter,
        config=config,
        taps=config.target_layer_ids,
        embedding=embedding.to(first),
        head=head.to(first),
        target_ids=target_ids,
        embedding_scale=config.embedding_scale if knobs.embedding_scale is None else knobs.embedding_scale,
        width=num_tokens + (0 if config.samples_from_anchor else 1),
        alignment=Alignment(
            query_shift=knobs.query_shift,
            erased_first=knobs.erased_first,
            erased_of_every=knobs.erased_of_every,
            context_end=knobs.context_end,
            context_lag=knobs.context_lag,
            context_shuffled=knobs.context_shuffled,
            context_key_norm_of=knobs.context_key_norm_of,
        ),
        max_length=knobs.max_length,
        num_draft_tokens=num_tokens,
        slot_offset=knobs.slot_offset,
        features_scaled=knobs.features_scaled,
    )


@torch.inference_mode()
def hidden_at(drafting: Drafting, states: Mapping[int, Tensor], tokens: Tensor, anchors: Tensor) -> Tensor:
    """Final hidden states [A, K, hidden] of the drafted slots at each anchor.

    Args:
        drafting: the drafter.
        states: outputs [L, hidden] of the target's layers, at least those of the taps.
        tokens: [L] the text.
        anchors: [A] positions of last committed tokens; drafts are of the tokens after them.
    """
    first = next(drafting.drafter.parameters())
    features = torch.cat([states[index] for index in drafting.taps], dim=-1).to(first)
    context = drafting.drafter.context_of(features[None])
    if drafting.features_scaled is not None:
        context = drafting.drafter.fc(features[None]) * drafting.features_scaled
    slots = torch.full((len(anchors), drafting.width), drafting.config.mask_token_id, device=tokens.device)
    slots[:, 0] = tokens[anchors]
    embedded = drafting.embedding[slots] * drafting.embedding_scale
    hidden: Tensor = drafting.drafter(embedded[None], context, anchors[None], drafting.alignment)[0]
    slots_read = torch.arange(
        drafting.width - drafting.num_draft_tokens, drafting.width, device=tokens.device
    )
    return hidden[:, (slots_read + drafting.slot_offset).clamp(0, drafting.width - 1)]


@torch.inference_mode()
def logits_of(drafting: Drafting, hidden: Tensor) -> Tensor:
    """Draft logits [..., draft vocabulary] of hidden states [..., hidden], in float32."""
    logits = (hidden @ drafting.head.T).float()
    logits = logits * drafting.config.output_multiplier
    cap = drafting.config.softcap
    return logits if cap is None else cap * torch.tanh(logits / cap)


@torch.inference_mode()
def ids_of(drafting: Drafting, logits: Tensor, hidden: Tensor, anchor_ids: Tensor) -> Tensor:
    """Draft token ids [A, K], greedy, in the target's numbering.

    Args:
        drafting: the drafter.
        logits: [A, K, draft vocabulary] from `logits_of`.
        hidden: [A, K, hidden] that they come from.
        anchor_ids: [A] last committed tokens.
    """
    if isinstance(drafting.drafter, Drafter2):
        # One numbering for codes, head and target: a reduced head comes with no DFlash2 drafter.
        return drafting.drafter.select(logits, hidden, anchor_ids)
    ids = logits.argmax(-1)
    return ids if drafting.target_ids is None else drafting.target_ids[ids]


@torch.inference_mode()
def drafts_at(drafting: Drafting, states: Mapping[int, Tensor], tokens: Tensor, anchors: Tensor) -> Tensor:
    """Draft token ids [A, K] at each anchor, greedy, in the target's numbering."""
    found = [torch.empty(0, drafting.num_draft_tokens, dtype=torch.long, device=tokens.device)]
    for part in torch.split(anchors, anchors_at_once(drafting, len(tokens))):
        hidden = hidden_at(drafting, states, tokens, part)
        found.append(ids_of(drafting, logits_of(drafting, hidden), hidden, tokens[part]))
    drafts = torch.cat(found)
    if drafting.max_length is not None:
        drafts[anchors + 1 + drafting.num_draft_tokens > drafting.max_length] = 0
    return drafts


def anchors_at_once(drafting: Drafting, num_tokens: int) -> int:
    """Anchors of one pass that keep memory bounded."""
    per_anchor = drafting.width * max(
        drafting.config.num_heads * (num_tokens + drafting.width), drafting.head.shape[0]
    )
    return max(1, _ELEMENTS_AT_ONCE // per_anchor)


def accepted_at(drafts: Tensor, tokens: Tensor, anchors: Tensor) -> Tensor:
    """Draft tokens [A] that greedy verification keeps at each anchor: those that stand in the text."""
    width = drafts.shape[1]
    places = anchors[:, None] + 1 + torch.arange(width, device=tokens.device)
    there = places < len(tokens)
    own = tokens[places.clamp(max=len(tokens) - 1)]
    return ((drafts == own) & there).long().cumprod(dim=1).sum(dim=1)


def walk(accepted: Sequence[int], first_anchor: int, num_tokens: int) -> list[int]:
    """Accepted draft tokens of each verify step along a text.

    Args:
        accepted: at every anchor from the first on.
        first_anchor: position of the token that prefill emits.
        num_tokens: of the text, prompt included. Only drafts of tokens that stand in the text count; an
            engine may count accepted drafts beyond the end, which it then throws away.
    """
    anchor, steps = first_anchor, []
    while anchor < num_tokens - 1:
        steps.append(accepted[anchor - first_anchor])
        anchor += steps[-1] + 1
    return steps


def _changed(config: DrafterConfig, knobs: Knobs) -> DrafterConfig:
    changes: dict[str, object] = {
        name: value
        for name in ("mask_token_id", "rope_theta", "partial_rotary_factor", "neox", "samples_from_anchor")
        if (value := getattr(knobs, name)) is not None
    }
    if knobs.taps is not None:
        if len(knobs.taps) != len(config.target_layer_ids):
            raise _misfit(f"{len(knobs.taps)} taps for a projection of {len(config.target_layer_ids)}")
        changes["target_layer_ids"] = knobs.taps
    if knobs.causal is not None:
        changes["causal"] = (knobs.causal,) * config.num_layers
    if knobs.window is not None:
        changes["windows"] = (knobs.window or None,) * config.num_layers
    return dataclasses.replace(config, **changes)  # type: ignore[arg-type]


def _with_tensors(drafter: Drafter, config: DrafterConfig, knobs: Knobs) -> Drafter:
    """A drafter of the changed config that shares its tensors with the loaded one where they stay."""
    dtype = getattr(torch, knobs.dtype) if knobs.dtype else None
    state = drafter.state_dict()
    if knobs.layer_order is not None:
        state = _reordered(state, knobs.layer_order, config.num_layers)
    for name in (*knobs.unset_tensors, *knobs.zeroed_tensors):
        if name not in state:
            raise _misfit(f"no tensor {name}")
        at_one = "norm" in name and name not in knobs.zeroed_tensors
        state[name] = torch.ones_like(state[name]) if at_one else torch.zeros_like(state[name])
    if dtype is not None:
        state = {name: value.to(dtype) for name, value in state.items()}
    with torch.device("meta"):
        changed = type(drafter)(config)
    changed.load_state_dict(state, assign=True)
    return changed.eval().requires_grad_(False)


def _reordered(state: Mapping[str, Tensor], order: Sequence[int], num_layers: int) -> dict[str, Tensor]:
    if sorted(order) != list(range(num_layers)):
        raise _misfit(f"layer order {list(order)} for {num_layers} layers")
    moved = {}
    for name, value in state.items():
        head, _, rest = name.partition(".")
        if head == "layers":
            index, _, tail = rest.partition(".")
            name = f"layers.{list(order).index(int(index))}.{tail}"
        moved[name] = value
    return moved


def _head(files: DrafterFiles, borrowed: Borrowed, knobs: Knobs) -> tuple[Tensor, Tensor | None]:
    """The head's rows and the target id of each."""
    if files.head is None or knobs.head == "target":
        return borrowed.head, None
    head, rows = files.head, files.head.shape[0]
    if knobs.vocab_map == "matched":
        return head, likest_rows(head, borrowed.head)
    if knobs.vocab_map == "none" or files.vocab_map is None:
        return head, None
    if len(files.vocab_map) != rows:
        raise _misfit(f"a d2t of {len(files.vocab_map)} entries for a head of {rows} rows")
    ids = torch.arange(rows, device=files.vocab_map.device) + files.vocab_map
    return head, ids.clamp(0, len(borrowed.head) - 1)


@torch.inference_mode()
def likest_rows(head: Tensor, target_head: Tensor) -> Tensor:
    """[rows] the row of the target's head that points most nearly the same way (largest cosine).

    A reduced head starts as a choice of the target's rows and moves little in training, so this finds the
    vocabulary table again without its file.
    """
    to = nn.functional.normalize(target_head.float(), dim=-1)
    found = []
    for part in torch.split(head, max(1, _ELEMENTS_AT_ONCE // max(1, len(target_head)))):
        found.append((nn.functional.normalize(part.float(), dim=-1) @ to.T).argmax(-1))
    return torch.cat(found)


def _misfit(seen: str) -> UsageError:
    return UsageError("a knob does not fit this drafter", seen=seen, remedy="name one that does")
