"""Head, embedding and vocabulary map of the drafter's own, where it should borrow the target's."""

from __future__ import annotations

import math
from typing import Any

from dflash_doctor.faults.base import Specimen


def head_random(specimen: Specimen) -> None:
    """A head that was never trained."""
    import torch

    head = _target_table(specimen, "lm_head.weight")
    generator = torch.Generator().manual_seed(specimen.rng.randrange(2**31))
    noise = torch.randn(head.shape, generator=generator) * head.float().std()
    _add(specimen, "lm_head.weight", noise.to(head.dtype))
    specimen.detail = "an untrained lm_head of its own"


def head_rolled(specimen: Specimen) -> None:
    """The target's head with its rows moved."""
    by = specimen.rng.choice((1, 2, 7, -1))
    _add(specimen, "lm_head.weight", _target_table(specimen, "lm_head.weight").roll(by, 0))
    specimen.detail = f"an lm_head of its own, rows moved by {by}"


def embedding_scaled(specimen: Specimen) -> None:
    """The target's embedding times the square root of the hidden size."""
    embedding = _target_table(specimen, "model.embed_tokens.weight")
    scale = math.sqrt(embedding.shape[1]) * specimen.rng.choice((1.0, 0.5))
    _add(specimen, "embed_tokens.weight", embedding * scale)
    specimen.detail = f"an embed_tokens of its own, x {scale:.3g}"


def embedding_random(specimen: Specimen) -> None:
    """An embedding that was never trained."""
    import torch

    embedding = _target_table(specimen, "model.embed_tokens.weight")
    generator = torch.Generator().manual_seed(specimen.rng.randrange(2**31))
    noise = torch.randn(embedding.shape, generator=generator) * embedding.float().std()
    _add(specimen, "embed_tokens.weight", noise.to(embedding.dtype))
    specimen.detail = "an untrained embed_tokens of its own"


def map_zero(specimen: Specimen) -> None:
    """A reduced head whose map says that draft ids are target ids."""
    reduced(specimen)
    tensors = specimen.tensors()
    tensors["d2t"] = tensors["d2t"] * 0
    specimen.write_tensors(tensors)
    specimen.detail += "; d2t zero"


def map_shuffled(specimen: Specimen) -> None:
    """A reduced head whose map was made again, in another order, for some of its entries."""
    import torch

    reduced(specimen)
    tensors = specimen.tensors()
    ids = torch.arange(len(tensors["d2t"])) + tensors["d2t"]
    count = max(2, round(len(ids) * specimen.rng.choice((0.3, 0.6, 1.0))))
    places = specimen.rng.sample(range(len(ids)), count)
    ids[places] = ids[[*places[1:], places[0]]]
    tensors["d2t"] = ids - torch.arange(len(ids))
    specimen.write_tensors(tensors)
    specimen.detail += f"; {count} entries of d2t exchanged"


def reduced(specimen: Specimen) -> None:
    """A healthy variant: a head of the tokens that this pair's texts use most, with its map."""
    import torch

    vocab = specimen.config("target")["vocab_size"]
    size = vocab * 3 // 4
    # The tokenizer's early ids are its bytes and most frequent merges: the tail is rare.
    kept = sorted(
        {*range(size - vocab // 16), *specimen.rng.sample(range(size - vocab // 16, vocab), vocab // 16)}
    )
    ids = torch.tensor(kept)
    tensors = specimen.tensors()
    tensors["lm_head.weight"] = _target_table(specimen, "lm_head.weight")[ids]
    tensors["d2t"] = ids - torch.arange(len(ids))
    specimen.write_tensors(tensors)
    config = specimen.config()
    config["draft_vocab_size"] = len(kept)
    specimen.write_config(config)
    specimen.detail = f"a head of {len(kept)} of {vocab} tokens"


def _target_table(specimen: Specimen, name: str) -> Any:
    return specimen.tensors("target")[name]


def _add(specimen: Specimen, name: str, value: Any) -> None:
    tensors = specimen.tensors()
    tensors[name] = value
    specimen.write_tensors(tensors)
