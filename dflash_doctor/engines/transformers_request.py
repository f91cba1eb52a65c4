"""One request through Transformers' `generate`: how it is asked, and what came back as a request trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dflash_doctor.engines.base import Sampling
from dflash_doctor.errors import EngineError


def token_budget(prompt_len: int, sampling: Sampling, *, max_model_len: int | None) -> int:
    """Output tokens this request may have: `max_tokens`, or less where the model's context ends before.

    Raises:
        EngineError: the prompt leaves room for none.
    """
    room = sampling.max_tokens if max_model_len is None else max_model_len - prompt_len
    if prompt_len == 0 or room < 1:
        raise EngineError(
            "a prompt does not fit the model",
            seen=f"{prompt_len} tokens, the model takes {max_model_len}",
            remedy="give a prompt with at least one token and room for one more",
        )
    return min(sampling.max_tokens, room)


def generation_config(sampling: Sampling, *, budget: int, end_ids: Sequence[int], logprobs: bool) -> Any:
    """Transformers' generation config for one request.

    It stands alone: the checkpoint's own sampling defaults are not mixed in, so that all engines decode
    with the parameters of the run.
    """
    from transformers import GenerationConfig

    greedy = sampling.temperature == 0
    chosen: dict[str, Any] = {"do_sample": not greedy}
    if not greedy:
        chosen |= {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": sampling.top_k}
    return GenerationConfig(
        max_new_tokens=budget,
        eos_token_id=list(end_ids) or None,
        pad_token_id=end_ids[0] if end_ids else None,
        return_dict_in_generate=True,
        output_logits=logprobs,
        **chosen,
    )


def speculate(config: Any, *, block_size: int) -> None:
    """Set a generation config to DFlash.

    The ends of the text are taken out, and `stop_after` stands in for them: Transformers cuts a step at
    the end token and at the limit, and where one token is left it does not draft at all. A step would
    then say less than its verification decided.
    """
    config.speculation_type = "dflash"
    config.max_new_tokens += block_size
    config.eos_token_id = None


def stop_after(prompt_len: int, *, budget: int, end_ids: Sequence[int], device: Any) -> Any:
    """Stopping criteria: the budget is used up, or an end token stands among the new ones."""
    import torch
    from transformers import StoppingCriteria, StoppingCriteriaList

    ends = torch.tensor(list(end_ids), device=device, dtype=torch.long)

    class TextIsComplete(StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
            new = input_ids[:, prompt_len:]
            return torch.isin(new, ends).any(dim=1) | (new.shape[1] >= budget)

    return StoppingCriteriaList([TextIsComplete()])


def trimmed(new_ids: Sequence[int], *, budget: int, end_ids: Sequence[int]) -> tuple[tuple[int, ...], str]:
    """What the client gets of the new tokens, and why it ends there: `stop` (an end token) or `length`."""
    kept = tuple(new_ids[:budget])
    end = next((index for index, token in enumerate(kept) if token in end_ids), None)
    return (kept, "length") if end is None else (kept[: end + 1], "stop")


def output_logprobs(
    logits: Sequence[Any], output_ids: Sequence[int]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Log-probability of each output token, and of the best token not chosen there.

    Args:
        logits: the target's own, [1, vocabulary] for each output position.
        output_ids: the tokens; there may be more logits than tokens.
    """
    chosen, runner_up = [], []
    for token, row in zip(output_ids, logits[: len(output_ids)], strict=True):
        logprobs = row[0].float().log_softmax(-1)
        chosen.append(float(logprobs[token]))
        best = logprobs.topk(2)
        other = 1 if int(best.indices[0]) == token else 0
        runner_up.append(float(best.values[other]))
    return tuple(chosen), tuple(runner_up)
