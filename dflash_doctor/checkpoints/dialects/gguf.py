"""GGUF drafters (llama.cpp): metadata instead of config.json, tap ids one more than z-lab's."""

from dflash_doctor.checkpoints.dialects.base import Config, Dialect

_KEY = "general.architecture"


def _recognises(config: Config) -> bool:
    return isinstance(config.get(_KEY), str)


GGUF = Dialect(
    name="gguf",
    summary="general.architecture dflash in a GGUF header",
    recognises=_recognises,
    native="llama.cpp",
    fields={
        "architecture": (_KEY,),
        "model_type": (_KEY,),
        "hidden_size": ("dflash.embedding_length",),
        "intermediate_size": ("dflash.feed_forward_length",),
        "num_layers": ("dflash.block_count",),
        "num_heads": ("dflash.attention.head_count",),
        "num_kv_heads": ("dflash.attention.head_count_kv",),
        "head_dim": ("dflash.attention.key_length",),
        "vocab_size": ("dflash.vocab_size",),
        "block_size": ("dflash.block_size",),
        "aux_layer_ids": ("dflash.target_layers",),
        "mask_token_id": ("tokenizer.ggml.mask_token_id", "dflash.mask_token_id"),
        "sample_from_anchor": ("dflash.sample_from_anchor",),
        "sliding_window": ("dflash.attention.sliding_window",),
        "is_causal": ("dflash.attention.causal",),
        "rope_theta": ("dflash.rope.freq_base",),
        "max_position_embeddings": ("dflash.context_length",),
        "markov_rank": ("dflash.markov_rank",),
    },
)
"""Keys of GGUF metadata hold dots themselves, so a path is looked up whole before it is taken apart."""
