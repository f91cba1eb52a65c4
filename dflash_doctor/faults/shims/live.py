"""The places in vLLM's V1 runner where a defect can be put: each function wraps one and returns the undo.

Attributes are replaced on instances, so that several defects stack and come off in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Uninstall = Callable[[], None]
"""Takes a defect away; the last one installed must be the first to go."""


def replaced(owner: Any, name: str, value: Any) -> Uninstall:
    """Set an attribute, module or parameter of `owner`; the undo gives back what stood there."""
    old = getattr(owner, name)
    was_own = name in vars(owner) or any(
        name in vars(owner).get(kind, ()) for kind in ("_modules", "_parameters", "_buffers")
    )
    setattr(owner, name, value)

    def undo() -> None:
        if was_own:
            setattr(owner, name, old)
        else:
            delattr(owner, name)

    return undo


def in_reverse(*steps: Uninstall) -> Uninstall:
    """One undo of several, given in the order of installation."""

    def undo() -> None:
        for step in reversed(steps):
            step()

    return undo


def draft_layers(runner: Any) -> Any:
    """The drafter without its head: `fc`, `layers`, `norm` and the writing of context K/V."""
    return runner.drafter.model.model


def drafts_changed(runner: Any, change: Callable[[Any, Mapping[str, Any]], Any]) -> Uninstall:
    """Pass drafts through `change(drafts, call)`.

    Args:
        runner: the model runner.
        change: gets a copy of the draft ids, [requests, K], and the keyword arguments of the proposer's
            call (`common_attn_metadata`, `next_token_ids`, ...); returns what to propose.
    """
    original = runner.drafter.propose

    def propose(**call: Any) -> Any:
        return change(original(**call).clone(), call)

    return replaced(runner.drafter, "propose", propose)


def block_changed(runner: Any, change: Callable[[Any], Any]) -> Uninstall:
    """Call `change(token_indices)` once the inputs of a block stand in the proposer's buffers.

    Args:
        runner: the model runner.
        change: gets the rows of the block to sample drafts from, [requests * K]; returns them.
    """
    original = runner.drafter.set_inputs_first_pass

    def set_inputs(*args: Any, **kwargs: Any) -> Any:
        num_tokens, token_indices, metadata = original(*args, **kwargs)
        return num_tokens, change(token_indices), metadata

    return replaced(runner.drafter, "set_inputs_first_pass", set_inputs)


class Features(NamedTuple):
    """What one request gives the drafter in one step: a row per token the target has just read."""

    request_id: str
    rows: Any
    """[tokens, taps * hidden] of the target."""
    position: int
    """Position of the first row."""
    num_valid: int
    """Rows before the first rejected token; later ones are overwritten in the next step."""


def features_changed(runner: Any, change: Callable[[Features], Any]) -> Uninstall:
    """Pass the target's hidden states through `change`, request by request, on the way to the drafter."""
    original = runner.drafter.propose

    def propose(**call: Any) -> Any:
        rows = call["target_hidden_states"].clone()
        metadata = call["common_attn_metadata"]
        bounds = metadata.query_start_loc_cpu.tolist()
        rejected = call.get("num_rejected_tokens_gpu")
        dropped = [0] * metadata.num_reqs if rejected is None else rejected.tolist()
        positions = call["target_positions"]
        for index in range(metadata.num_reqs):
            start, end = bounds[index], bounds[index + 1]
            rows[start:end] = change(
                Features(
                    request_id=runner.input_batch.req_ids[index],
                    rows=rows[start:end].clone(),
                    position=int(positions[start]),
                    num_valid=end - start - dropped[index],
                )
            )
        return original(**(call | {"target_hidden_states": rows}))

    return replaced(runner.drafter, "propose", propose)


def context_erased(runner: Any, is_hole: Callable[[Any], Any]) -> Uninstall:
    """Zero the context K/V of the positions for which `is_hole(positions)` is true, after each write.

    Zeros, because an unwritten slot holds whatever an earlier request left: a defect must repeat.
    """
    model = draft_layers(runner)
    original = model.precompute_and_store_context_kv

    def store(states: Any, positions: Any, slots: Any = None) -> None:
        original(states, positions, slots)
        if slots is None:
            return
        holes = slots[is_hole(positions)]
        if holes.numel() == 0:
            return
        shape = (holes.shape[0], model._num_kv_heads, model._head_dim)
        for attention in model._attn_layers:
            zeros = states.new_zeros(shape)
            attention.impl.do_kv_cache_update(attention, zeros, zeros.clone(), attention.kv_cache, holes)

    return replaced(model, "precompute_and_store_context_kv", store)


class Verified(NamedTuple):
    """What verification saw and decided for one request that drafted."""

    drafts: list[int]
    choices: list[int]
    """The target's own token after 0, 1, ... K accepted drafts."""
    runners_up: list[int]
    """Its second choice after 0, 1, ... K - 1 accepted drafts."""
    kept: list[int]
    """Accepted drafts, then one token of the target."""


def verification_changed(runner: Any, change: Callable[[Verified], list[int]]) -> Uninstall:
    """Pass what verification keeps through `change`, request by request.

    It sits below the sampler, so that log-probabilities and a capture belong to the tokens kept.
    """
    import torch
    from vllm.v1.sample import rejection_sampler

    del runner  # the sampler calls a function of its module
    original = rejection_sampler.rejection_sample

    def rejection_sample(
        draft_ids: Any,
        num_drafted: list[int],
        max_drafted: int,
        ends: Any,
        draft_probs: Any,
        logits: Any,
        bonus_ids: Any,
        *rest: Any,
        **options: Any,
    ) -> Any:
        best = logits.topk(2, dim=-1).indices.tolist()
        output = original(
            draft_ids, num_drafted, max_drafted, ends, draft_probs, logits, bonus_ids, *rest, **options
        )
        rows, start = [], 0
        for count, emitted, bonus in zip(num_drafted, output.tolist(), bonus_ids.flatten(), strict=True):
            kept = [token for token in emitted if token >= 0]
            own = slice(start, start + count)
            start += count
            if count and kept:
                verified = Verified(
                    drafts=draft_ids[own].tolist(),
                    choices=[pair[0] for pair in best[own]] + [int(bonus)],
                    runners_up=[pair[1] for pair in best[own]],
                    kept=kept,
                )
                kept = change(verified)
            rows.append(kept + [-1] * (output.shape[1] - len(kept)))
        return torch.tensor(rows, dtype=output.dtype, device=output.device)

    return replaced(rejection_sampler, "rejection_sample", rejection_sample)
