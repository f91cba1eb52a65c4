"""Target, tokenizer and template do not go with the drafter."""

from __future__ import annotations

import json

from dflash_doctor.faults.base import Specimen


def target_tuned(specimen: Specimen) -> None:
    """The target was changed after the drafter was trained, as noise on its matrices changes it."""
    import torch

    share = specimen.rng.choice((0.08, 0.12))
    generator = torch.Generator().manual_seed(specimen.rng.randrange(2**31))
    changed = {}
    for name, value in specimen.tensors("target").items():
        noise = torch.randn(value.shape, generator=generator) * value.float().std() * share
        changed[name] = value if value.dim() == 1 else (value.float() + noise).to(value.dtype)
    specimen.write_tensors(changed, "target")
    specimen.detail = f"noise of {share:g} standard deviations on the target's matrices"


def tokens_swapped(specimen: Specimen) -> None:
    """Ids of the drafter's tokenizer stand for other text."""
    path = specimen.folder / "draft" / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    vocab = tokenizer["model"]["vocab"]
    names = specimen.rng.sample(sorted(vocab), 2 * specimen.rng.choice((1, 3, 10)))
    for left, right in zip(names[::2], names[1::2], strict=True):
        vocab[left], vocab[right] = vocab[right], vocab[left]
    path.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    specimen.detail = f"{len(names)} ids exchanged"


def template_changed(specimen: Specimen) -> None:
    """The target's chat template no longer writes what the drafter was trained on."""
    path = specimen.folder / "target" / "chat_template.jinja"
    text = path.read_text(encoding="utf-8")
    edits = {
        "the empty thinking block is gone": text.replace("<think>\\n\\n</think>\\n\\n", ""),
        "another word for the user": text.replace("<|im_start|>' + message", "<|im_start|>the ' + message"),
        "space before each message": text.replace("<|im_start|>", " <|im_start|>"),
    }
    usable = {name: value for name, value in edits.items() if value != text}
    name = specimen.rng.choice(sorted(usable))
    path.write_text(usable[name], encoding="utf-8")
    specimen.detail = name
