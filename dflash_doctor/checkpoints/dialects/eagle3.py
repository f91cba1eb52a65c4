"""EAGLE-3 heads: one decoder layer, taps counted by the layer that the stream enters."""

from dflash_doctor.checkpoints.dialects.base import Config, Dialect, has_architecture


def _recognises(config: Config) -> bool:
    return has_architecture(config, "Eagle3", "EAGLE3") or "eagle_config" in config


EAGLE3 = Dialect(
    name="eagle3",
    summary="LlamaForCausalLMEagle3, Eagle3*",
    recognises=_recognises,
    native="eagle3",
)
