"""Attention of the drafter otherwise than in training."""

from __future__ import annotations

from dflash_doctor.faults.base import NotApplicable, Specimen


def causal(specimen: Specimen) -> None:
    """Slots see only those before them; either key."""
    config = specimen.config()
    if specimen.rng.random() < 0.5:
        config["is_causal"] = True
        specimen.detail = "is_causal -> true"
    else:
        config.pop("is_causal", None)
        config["dflash_config"]["causal"] = True
        specimen.detail = "dflash_config.causal -> true"
    specimen.write_config(config)


def window_lost(specimen: Specimen) -> None:
    """Full attention for a drafter that was trained with a window."""
    config = specimen.config()
    window = _window(config)
    config["layer_types"] = ["full_attention"] * config["num_hidden_layers"]
    config["sliding_window"] = None
    config["use_sliding_window"] = False
    specimen.write_config(config)
    specimen.detail = f"window {window} -> none"


def window_shrunk(specimen: Specimen) -> None:
    """A fraction of the trained window."""
    config = specimen.config()
    window = _window(config)
    config["sliding_window"] = max(4, round(window * specimen.rng.choice((0.25, 0.5))))
    specimen.write_config(config)
    specimen.detail = f"window {window} -> {config['sliding_window']}"


def window_added(specimen: Specimen) -> None:
    """A window for a drafter that was trained without."""
    config = specimen.config()
    if "sliding_attention" in config["layer_types"]:
        raise NotApplicable("it has a window")
    window = specimen.rng.choice((8, 12, 16))
    config["layer_types"] = ["sliding_attention"] * config["num_hidden_layers"]
    config |= {"sliding_window": window, "use_sliding_window": True, "is_causal": False}
    specimen.write_config(config)
    specimen.detail = f"window none -> {window}"


def _window(config: dict[str, object]) -> int:
    window = config.get("sliding_window")
    if not isinstance(window, int):
        raise NotApplicable("it has no window")
    return window
