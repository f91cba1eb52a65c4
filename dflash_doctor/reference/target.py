"""What the reference takes from the target: layer outputs along a text, its embedding and its head."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dflash_doctor.errors import UsageError


def decoder_layers(target: Any) -> Any:
    """The decoder layers of a Transformers causal language model, also of a multimodal one."""
    decoder = target.get_decoder()
    inner = getattr(decoder, "language_model", decoder)
    return inner.layers


@torch.inference_mode()
def layer_outputs(
    target: Any, token_ids: Sequence[int], layer_ids: Iterable[int]
) -> tuple[dict[int, Tensor], Tensor]:
    """Outputs [L, hidden] of some target layers along one text, and the target's logits [L, vocabulary].

    Taken from the layers themselves: the last entry of Transformers' `hidden_states` is behind the final
    norm, so a tap on the last layer would silently be another quantity there.

    Args:
        target: a Transformers causal language model in evaluation mode.
        token_ids: [L].
        layer_ids: id i is the output of layer i; -1 is what enters layer 0.

    Raises:
        UsageError: a layer lies outside the target.
    """
    layers, wanted = decoder_layers(target), sorted(set(layer_ids))
    outside = [index for index in wanted if not -1 <= index < len(layers)]
    if outside:
        raise UsageError(
            "a tap lies outside the target",
            seen=f"target_layer_ids {outside}, the target has {len(layers)} layers (ids from 0)",
            remedy="name the target that this drafter was trained for",
        )
    kept: dict[int, Tensor] = {}

    def keep(index: int) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            kept[index] = (output[0] if isinstance(output, tuple) else output)[0]

        return hook

    def keep_input(_module: nn.Module, inputs: Any, named: Any) -> None:
        kept[-1] = (inputs[0] if inputs else named["hidden_states"])[0]

    hooks = [layers[index].register_forward_hook(keep(index)) for index in wanted if index >= 0]
    if -1 in wanted:
        hooks.append(layers[0].register_forward_pre_hook(keep_input, with_kwargs=True))
    try:
        tokens = torch.tensor([list(token_ids)], device=target.device)
        logits: Tensor = target(input_ids=tokens, use_cache=False).logits[0]
    finally:
        for hook in hooks:
            hook.remove()
    return kept, logits


def tap_features(target: Any, token_ids: Sequence[int], target_layer_ids: Sequence[int]) -> Tensor:
    """Tap features [L, taps * hidden] of one target pass, taps joined in the order given.

    Raises:
        UsageError: a tap lies outside the target.
    """
    outputs, _ = layer_outputs(target, token_ids, target_layer_ids)
    return torch.cat([outputs[index] for index in target_layer_ids], dim=-1)
