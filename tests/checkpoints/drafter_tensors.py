"""Names and shapes of the tensors that each family of drafters holds."""

from __future__ import annotations

from dataclasses import dataclass

Tensors = dict[str, tuple[str, list[int]]]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of a drafter's backbone."""

    hidden: int
    ffn: int
    layers: int
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    num_taps: int = 5
    target_hidden: int | None = None

    @property
    def fc_width(self) -> int:
        return self.num_taps * (self.target_hidden or self.hidden)


def linear(name: str, out: int, inner: int) -> Tensors:
    return {f"{name}.weight": ("BF16", [out, inner])}


def norm(name: str, size: int) -> Tensors:
    return {f"{name}.weight": ("BF16", [size])}


def qwen3_layer(shape: Shape, prefix: str, *, fused: bool = False) -> Tensors:
    """One decoder layer; `fused` stores queries, keys and values as one."""
    hidden, queries = shape.hidden, shape.heads * shape.head_dim
    keys = shape.kv_heads * shape.head_dim
    attention = (
        linear(prefix + "self_attn.qkv_proj", queries + 2 * keys, hidden)
        if fused
        else linear(prefix + "self_attn.q_proj", queries, hidden)
        | linear(prefix + "self_attn.k_proj", keys, hidden)
        | linear(prefix + "self_attn.v_proj", keys, hidden)
    )
    return (
        attention
        | linear(prefix + "self_attn.o_proj", hidden, queries)
        | norm(prefix + "self_attn.q_norm", shape.head_dim)
        | norm(prefix + "self_attn.k_norm", shape.head_dim)
        | linear(prefix + "mlp.gate_proj", shape.ffn, hidden)
        | linear(prefix + "mlp.up_proj", shape.ffn, hidden)
        | linear(prefix + "mlp.down_proj", hidden, shape.ffn)
        | norm(prefix + "input_layernorm", hidden)
        | norm(prefix + "post_attention_layernorm", hidden)
    )


def dflash(shape: Shape, *, fused: bool = False) -> Tensors:
    """z-lab's DFlash: no embedding, no head."""
    tensors: Tensors = {}
    for index in range(shape.layers):
        tensors |= qwen3_layer(shape, f"layers.{index}.", fused=fused)
    return (
        tensors
        | linear("fc", shape.hidden, shape.fc_width)
        | norm("hidden_norm", shape.hidden)
        | norm("norm", shape.hidden)
    )


def dflash2(shape: Shape, *, vocab: int, taps: int = 2, group: int = 16, rank: int = 256) -> Tensors:
    """With grouped convolutions and the candidate selector."""
    tensors = dflash(shape)
    for index in range(shape.layers):
        for name in ("attention_conv", "mlp_conv"):
            tensors[f"layers.{index}.{name}.base_kernel"] = ("BF16", [2, taps, shape.hidden])
            groups = shape.hidden // group
            tensors |= linear(f"layers.{index}.{name}.kernel_projection", 2 * taps * groups, shape.hidden)
    tensors["candidate_selector.predecessor_codebook"] = ("BF16", [vocab, rank])
    tensors["candidate_selector.successor_codebook"] = ("BF16", [vocab, rank])
    return tensors | linear("candidate_selector.hidden_projection", rank, shape.hidden)


def dspark(shape: Shape, *, vocab: int, rank: int = 256) -> Tensors:
    """With the Markov and the confidence head."""
    return (
        dflash(shape)
        | linear("markov_head.markov_w1", vocab, rank)
        | linear("markov_head.markov_w2", vocab, rank)
        | linear("confidence_head.proj", 1, shape.hidden + rank)
        | {"confidence_head.proj.bias": ("BF16", [1])}
    )


def muse_glimmer(shape: Shape) -> Tensors:
    renamed = {"fc.weight": "encoder.fc.weight", "hidden_norm.weight": "encoder.output_norm_enc.weight"}
    return {renamed.get(name, name): entry for name, entry in dflash(shape).items()}


def laguna(shape: Shape) -> Tensors:
    tensors = dflash(shape, fused=True)
    for index in range(shape.layers):
        tensors |= linear(f"layers.{index}.self_attn.g_proj", shape.heads, shape.hidden)
    for index in range(shape.num_taps):
        tensors |= norm(f"aux_hidden_norms.{index}", shape.target_hidden or shape.hidden)
    return tensors


def with_sinks(tensors: Tensors, shape: Shape) -> Tensors:
    sinks = {
        f"layers.{index}.self_attn.attention_sink_bias": ("BF16", [shape.heads])
        for index in range(shape.layers)
    }
    return tensors | sinks


def domino(shape: Shape, *, vocab: int, gru: int = 1024, emb: int = 512) -> Tensors:
    return (
        dflash(shape)
        | {
            "prefix_gru.weight_ih_l0": ("BF16", [3 * gru, shape.hidden]),
            "prefix_gru.weight_hh_l0": ("BF16", [3 * gru, gru]),
        }
        | linear("embed_proj.0", emb, shape.hidden + gru)
        | linear("embed_proj.2", vocab, emb)
    )


def in_nvfp4(tensors: Tensors) -> Tensors:
    """Decoder matrices packed two to a byte, with a scale per sixteen and one per matrix."""
    packed: Tensors = {}
    for name, (dtype, shape) in tensors.items():
        if not (name.startswith("layers.") and name.endswith("_proj.weight")):
            packed[name] = (dtype, shape)
            continue
        out, inner = shape
        packed[name] = ("U8", [out, inner // 2])
        packed[name + "_scale"] = ("F8_E4M3", [out, inner // 16])
        packed[name + "_scale_2"] = ("F32", [])
    return packed


def eagle3(shape: Shape, layer: str, *, draft_vocab: int) -> Tensors:
    """One decoder layer that takes the embedding beside the stream, and a head of its own."""
    hidden, queries = shape.hidden, shape.heads * shape.head_dim
    keys = shape.kv_heads * shape.head_dim
    return (
        linear(layer + "self_attn.q_proj", queries, 2 * hidden)
        | linear(layer + "self_attn.k_proj", keys, 2 * hidden)
        | linear(layer + "self_attn.v_proj", keys, 2 * hidden)
        | linear(layer + "self_attn.o_proj", hidden, queries)
        | linear(layer + "mlp.gate_proj", shape.ffn, hidden)
        | linear(layer + "mlp.up_proj", shape.ffn, hidden)
        | linear(layer + "mlp.down_proj", hidden, shape.ffn)
        | norm(layer + "hidden_norm", hidden)
        | norm(layer + "input_layernorm", hidden)
        | norm(layer + "post_attention_layernorm", hidden)
        | linear("fc", hidden, shape.fc_width)
        | norm("norm", hidden)
        | linear("lm_head", draft_vocab, hidden)
    )
