"""What is asked for, and how it is served."""

from __future__ import annotations

import json

from dflash_doctor.faults.base import Specimen


def k_beyond_block(specimen: Specimen) -> None:
    """More draft tokens than the block has slots for."""
    block = specimen.config()["block_size"]
    specimen.settings["num_speculative_tokens"] = block + specimen.rng.choice((0, 2, 4, 7))
    specimen.detail = f"K = {specimen.settings['num_speculative_tokens']} for a block of {block}"


def thinking_on(specimen: Specimen) -> None:
    """Thinking, for a drafter that was trained without."""
    specimen.settings["thinking"] = "on"
    specimen.detail = "thinking on"


def draft_length_short(specimen: Specimen) -> None:
    """The drafter's length ends inside the served texts: from there on it drafts nothing."""
    config = specimen.config()
    config["max_position_embeddings"] = specimen.rng.choice((48, 64, 80))
    specimen.write_config(config)
    specimen.detail = f"max_position_embeddings -> {config['max_position_embeddings']}"


def smaller_k(specimen: Specimen) -> None:
    """A control: fewer draft tokens than the block allows."""
    block = specimen.config()["block_size"]
    specimen.settings["num_speculative_tokens"] = specimen.rng.randrange(2, block - 1)
    specimen.detail = f"K = {specimen.settings['num_speculative_tokens']} for a block of {block}"


def float32(specimen: Specimen) -> None:
    """A control: everything in float32."""
    specimen.settings["engine_arg"] = ("dtype=float32",)
    specimen.detail = "dtype float32"


def short_answers(specimen: Specimen) -> None:
    """A control: short answers."""
    specimen.settings["max_tokens"] = specimen.rng.choice((24, 32, 48))
    specimen.detail = f"at most {specimen.settings['max_tokens']} tokens"


def other_seed(specimen: Specimen) -> None:
    """A control: other prompts of the same kind."""
    specimen.settings["seed"] = specimen.rng.randrange(1, 1000)
    specimen.detail = f"seed {specimen.settings['seed']}"


def few_sequences(specimen: Specimen) -> None:
    """A control: few requests at a time."""
    count = specimen.rng.choice((1, 2, 4))
    specimen.settings["engine_arg"] = (f"max_num_seqs={count}",)
    specimen.detail = f"max_num_seqs {count}"


def hard_slice(specimen: Specimen) -> None:
    """A control: only the kind of prompt that is accepted least."""
    _keep(specimen, "ramble")


def easy_slice(specimen: Specimen) -> None:
    """A control: only the kind of prompt that is accepted most."""
    _keep(specimen, "code")


def prefix_cache_off(specimen: Specimen) -> None:
    """A control: no prefix cache."""
    specimen.settings["engine_arg"] = ("enable_prefix_caching=false",)
    specimen.detail = "prefix caching off"


def untouched(specimen: Specimen) -> None:
    """A control: the pair as it is."""
    specimen.detail = "nothing"


def split_weights(specimen: Specimen) -> None:
    """A control: the drafter's weights in two files with an index."""
    from safetensors.torch import save

    names = sorted(specimen.tensors())
    tensors, place = specimen.tensors(), specimen.folder / "draft"
    half = specimen.rng.randrange(1, len(names))
    parts = {
        "model-00001-of-00002.safetensors": names[:half],
        "model-00002-of-00002.safetensors": names[half:],
    }
    for file, members in parts.items():
        (place / file).write_bytes(save({name: tensors[name] for name in members}, metadata={"format": "pt"}))
    index = {
        "metadata": {"total_size": sum(value.numel() * value.element_size() for value in tensors.values())},
        "weight_map": {name: file for file, members in parts.items() for name in members},
    }
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    (place / "model.safetensors").unlink()
    specimen.detail = f"{half} and {len(names) - half} tensors in two files"


def _keep(specimen: Specimen, category: str) -> None:
    path = specimen.folder / "prompts.jsonl"
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    kept = [line for line in lines if json.loads(line)["category"] == category]
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    specimen.detail = f"only {category}"
