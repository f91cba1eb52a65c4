"""The drafter's weights are not the trained ones."""

from __future__ import annotations

from typing import Any

from dflash_doctor.faults.base import Specimen


def tensor_missing(specimen: Specimen) -> None:
    """One tensor is not in the file; engines start without a word."""
    tensors = specimen.tensors()
    names = [
        name
        for name in tensors
        if name.endswith(("fc.weight", "down_proj.weight", "o_proj.weight", "q_norm.weight", "k_norm.weight"))
    ]
    name = specimen.rng.choice(names)
    del tensors[name]
    specimen.write_tensors(tensors)
    specimen.detail = f"{name} missing"


def layer_missing(specimen: Specimen) -> None:
    """The config asks for more layers than the file has."""
    config = specimen.config()
    before = config["num_hidden_layers"]
    config["num_hidden_layers"] = before + 1
    config["layer_types"] = [*config["layer_types"], config["layer_types"][-1]]
    specimen.write_config(config)
    specimen.detail = f"num_hidden_layers {before} -> {before + 1}"


def tensor_zero(specimen: Specimen) -> None:
    """The projection of the features, or their norm, is zero."""
    tensors = specimen.tensors()
    name = specimen.rng.choice(("fc.weight", "hidden_norm.weight"))
    tensors[name] = tensors[name] * 0
    specimen.write_tensors(tensors)
    specimen.detail = f"{name} zero"


def layers_swapped(specimen: Specimen) -> None:
    """Two layers have changed places."""
    tensors, count = specimen.tensors(), specimen.config()["num_hidden_layers"]
    first, second = specimen.rng.sample(range(count), 2)

    def renamed(name: str) -> str:
        for one, other in ((first, second), (second, first)):
            if name.startswith(f"layers.{one}."):
                return name.replace(f"layers.{one}.", f"layers.{other}.", 1)
        return name

    specimen.write_tensors({renamed(name): value for name, value in tensors.items()})
    specimen.detail = f"layers {first} and {second} exchanged"


def of_another_target(specimen: Specimen) -> None:
    """A drafter of the same shape that never saw this target: every matrix drawn anew."""
    import torch

    generator = torch.Generator().manual_seed(specimen.rng.randrange(2**31))
    drawn: dict[str, Any] = {}
    for name, value in specimen.tensors().items():
        noise = torch.randn(value.shape, generator=generator) * value.float().std()
        drawn[name] = value if value.dim() == 1 else noise.to(value.dtype)
    specimen.write_tensors(drawn)
    specimen.detail = "every matrix drawn anew"


def weak(specimen: Specimen) -> None:
    """A control: rightly wired and less well trained, as noise on the matrices makes it."""
    import torch

    share = specimen.rng.choice((0.15, 0.25))
    generator = torch.Generator().manual_seed(specimen.rng.randrange(2**31))
    noisy = {}
    for name, value in specimen.tensors().items():
        noise = torch.randn(value.shape, generator=generator) * value.float().std() * share
        noisy[name] = value if value.dim() == 1 else (value.float() + noise).to(value.dtype)
    specimen.write_tensors(noisy)
    specimen.detail = f"noise of {share:g} standard deviations on every matrix"


def rounded(specimen: Specimen) -> None:
    """A control: matrices rounded to int4 by row, which costs next to nothing."""
    from torch import Tensor

    def low(value: Tensor) -> Tensor:
        scale = value.float().abs().amax(dim=-1, keepdim=True).clamp(min=1e-8) / 7
        return ((value.float() / scale).round() * scale).to(value.dtype)

    specimen.write_tensors(
        {name: value if value.dim() == 1 else low(value) for name, value in specimen.tensors().items()}
    )
    specimen.detail = "matrices rounded to 4 bits"
