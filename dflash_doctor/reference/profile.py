"""Sums up drafts in detail, by draft position, over many texts."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dflash_doctor.reference.drafting import Drafting, anchors_at_once, hidden_at, ids_of, logits_of
from dflash_doctor.trials import DraftProfile

_TOP = 5


class ProfileSum:
    """Running sums over anchors; `result` divides."""

    def __init__(self, num_draft_tokens: int) -> None:
        self._width = num_draft_tokens
        self._sums = {
            name: torch.zeros(num_draft_tokens, dtype=torch.float64)
            for name in ("anchors", "equal", "rank", "logprob", "entropy", "top", "early", "late")
        }
        self._repeated = 0
        self._non_finite = 0

    def add(self, drafting: Drafting, states: Mapping[int, Tensor], tokens: Tensor, anchors: Tensor) -> None:
        """Add the drafts at these anchors of one text."""
        for part in torch.split(anchors, anchors_at_once(drafting, len(tokens))):
            if len(part):
                hidden = hidden_at(drafting, states, tokens, part)
                logits = logits_of(drafting, hidden)
                self._add(logits, ids_of(drafting, logits, hidden, tokens[part]), drafting, tokens, part)

    def result(self) -> DraftProfile:
        """The sums as counts and means."""
        anchors = self._sums["anchors"]

        def means(name: str) -> tuple[float, ...]:
            return tuple((self._sums[name] / anchors.clamp(min=1)).tolist())

        def counts(name: str) -> tuple[int, ...]:
            return tuple(int(value) for value in self._sums[name].tolist())

        return DraftProfile(
            num_anchors=counts("anchors"),
            num_equal=counts("equal"),
            mean_rank=means("rank"),
            mean_logprob=means("logprob"),
            mean_entropy=means("entropy"),
            in_top_5=counts("top"),
            num_equal_one_early=counts("early"),
            num_equal_one_late=counts("late"),
            num_repeated=self._repeated,
            num_non_finite=self._non_finite,
        )

    def _add(self, logits: Tensor, ids: Tensor, drafting: Drafting, tokens: Tensor, anchors: Tensor) -> None:
        self._non_finite += int((~logits.isfinite()).sum())
        places = anchors[:, None] + 1 + torch.arange(self._width, device=tokens.device)
        self._repeated += int((ids[:, 1:] == ids[:, :-1]).sum())
        there = places < len(tokens)
        own = tokens[places.clamp(max=len(tokens) - 1)]
        rows, sayable = _rows_of(drafting, own)
        log = logits.nan_to_num().log_softmax(-1)
        of_own = log.gather(-1, rows[..., None]).squeeze(-1)
        rank = (log > of_own[..., None]).sum(-1) + 1
        seen = there & sayable
        shares = {
            "anchors": there,
            "equal": (ids == own) & there,
            "rank": rank * seen,
            "logprob": of_own * seen,
            "entropy": -(log.exp() * log).sum(-1) * there,
            "top": (rank <= _TOP) & seen,
            "early": (ids == tokens[(places - 1).clamp(max=len(tokens) - 1)]) & there,
            "late": (ids == tokens[(places + 1).clamp(max=len(tokens) - 1)]) & (places + 1 < len(tokens)),
        }
        for name, value in shares.items():
            self._sums[name] += value.double().sum(0).cpu()


def _rows_of(drafting: Drafting, own: Tensor) -> tuple[Tensor, Tensor]:
    """Head row of each target id, and whether the drafter can say it at all."""
    if drafting.target_ids is None:
        return own.clamp(max=drafting.head.shape[0] - 1), own < drafting.head.shape[0]
    rows = torch.full((int(max(drafting.target_ids.max(), own.max())) + 1,), -1, device=own.device)
    rows[drafting.target_ids] = torch.arange(len(drafting.target_ids), device=own.device)
    found = rows[own]
    return found.clamp(min=0), found >= 0
