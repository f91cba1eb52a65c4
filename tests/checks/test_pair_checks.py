"""Each static failure mode of a pair fires its check and no other; a near miss fires none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pair_files import PairFiles, layer_tensors, numbers, reduced_vocabulary, speculators_pair

from dflash_doctor.diagnosis.catalog import causes
from dflash_doctor.inspection import inspect
from dflash_doctor.records import Finding
from dflash_doctor.settings import Settings

Edit = Callable[[PairFiles], Any]


@dataclass(frozen=True)
class Fault:
    """A fault, what it must be called, and the same thing done right."""

    name: str
    code: str
    wrong: Edit
    right: Edit
    causes: tuple[str, ...]
    modes: tuple[str, ...]
    severity: str = "error"
    start: Callable[[], PairFiles] = PairFiles
    line_of: str | None = None
    """Key whose line the finding must point at."""


def put(**values: Any) -> Edit:
    """Sets fields of the drafter's config; `None` removes."""

    def edit(pair: PairFiles) -> None:
        for name, value in values.items():
            place = pair.draft
            *inner, last = name.split("__")
            for key in inner:
                place = place[key]
            if value is None:
                place.pop(last, None)
            else:
                place[last] = value

    return edit


def put_target(**values: Any) -> Edit:
    return lambda pair: pair.target.update(values)


def args(*items: str, **settings: Any) -> Edit:
    def edit(pair: PairFiles) -> None:
        pair.arg(*items)
        pair.settings |= settings

    return edit


def both(*edits: Edit) -> Edit:
    return lambda pair: [edit(pair) for edit in edits]


def tensors(**changes: Any) -> Edit:
    """Adds tensors of the drafter, or removes them (`None`); `_dot_` stands for a dot."""

    def edit(pair: PairFiles) -> None:
        for name, value in changes.items():
            key = name.replace("_dot_", ".")
            if value is None:
                del pair.draft_tensors[key]
            else:
                pair.draft_tensors[key] = value

    return edit


def sliding(**values: Any) -> Edit:
    windows = {"layer_types": ["sliding_attention"] * 5, "sliding_window": 2048, "use_sliding_window": True}
    return put(**(windows | values))


def dflash2(pair: PairFiles) -> None:
    pair.draft["architectures"] = ["DFlash2DraftModel"]
    pair.dflash.update(conv_kernel_size=2, conv_group_size=16, selector_rank=256, selector_top_k=16)
    for index in range(5):
        for module in ("attention_conv", "mlp_conv"):
            pair.draft_tensors[f"layers.{index}.{module}.base_kernel"] = ("BF16", (2, 2, 4096))
    pair.draft_tensors["candidate_selector.predecessor_codebook.weight"] = ("BF16", (151936, 256))


eagle3 = put(architectures=["LlamaForCausalLMEagle3"], dflash_config=None, layer_types=None, block_size=None)


def plain_model() -> PairFiles:
    """A small language model as drafter."""
    pair = PairFiles(settings={"method": "draft_model"})
    put(architectures=["Qwen3ForCausalLM"], dflash_config=None, block_size=None, num_target_layers=None)(pair)
    return pair


def table(values: list[int]) -> Edit:
    def edit(pair: PairFiles) -> None:
        pair.draft_tensors["d2t"] = ("I64", (len(values),))
        pair.draft_data["d2t"] = numbers(values)
        del pair.draft_tensors["t2d"], pair.draft_data["t2d"]

    return edit


def fused(pair: PairFiles) -> None:
    for index in range(5):
        for part in ("q_proj", "k_proj", "v_proj"):
            del pair.draft_tensors[f"layers.{index}.self_attn.{part}.weight"]
        pair.draft_tensors[f"layers.{index}.self_attn.qkv_proj.weight"] = ("BF16", (6144, 4096))


def nothing(pair: PairFiles) -> None:
    """The healthy pair itself."""


AWQ = {"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["lm_head"]}

FAULTS = (
    Fault(
        "K beyond the block", "DF101", args(num_speculative_tokens=16), args(num_speculative_tokens=15),
        ("num-speculative-tokens-exceeds-block",), ("C7",), line_of="block_size",
    ),
    Fault(
        "the anchor counted twice", "DF101",
        args("speculative_num_draft_tokens=17", "max_running_requests=64", served_by="sglang"),
        args("speculative_num_draft_tokens=16", "max_running_requests=64", served_by="sglang"),
        ("num-speculative-tokens-exceeds-block",), ("C7",), line_of="block_size",
    ),
    Fault(
        "no taps", "DF103", put(dflash_config__target_layer_ids=None), nothing,
        ("target-layer-ids-missing",), ("A2",),
    ),
    Fault(
        "no taps in an EAGLE-3 head", "DF103",
        both(eagle3, args(method="eagle3")),
        both(eagle3, args(method="eagle3"), put(eagle_aux_hidden_state_layer_ids=[2, 10, 18, 26, 34])),
        ("target-layer-ids-missing",), ("A3",),
    ),
    Fault(
        "a tap past the last layer", "DF104",
        put(dflash_config__target_layer_ids=[1, 9, 17, 25, 36]),
        put(dflash_config__target_layer_ids=[1, 9, 17, 25, 35]),
        ("target-layer-ids-out-of-range", "wrong-drafter-for-target"), ("A13",), line_of="target_layer_ids",
    ),
    Fault(
        "a tap listed twice", "DF104", put(dflash_config__target_layer_ids=[1, 9, 17, 25, 25]), nothing,
        ("target-layer-ids-out-of-range", "wrong-drafter-for-target"), ("A13",), line_of="target_layer_ids",
    ),
    Fault(
        "taps that fall", "DF104", put(dflash_config__target_layer_ids=[33, 25, 17, 9, 1]), nothing,
        ("target-layer-ids-out-of-range", "wrong-drafter-for-target"), ("A13",), "warning",
        line_of="target_layer_ids",
    ),
    Fault(
        "two lists that are not one apart", "DF105",
        put(eagle_aux_hidden_state_layer_ids=[1, 9, 17, 25, 33]),
        put(eagle_aux_hidden_state_layer_ids=[2, 10, 18, 26, 34]),
        ("target-layer-ids-shifted",), ("A1",), line_of="eagle_aux_hidden_state_layer_ids",
    ),
    Fault(
        "SGLang guesses the taps of a speculators file", "DF105",
        both(put(aux_hidden_state_layer_ids=[3, 10, 18, 26, 34]),
             args("max_running_requests=64", served_by="sglang")),
        args("max_running_requests=64", served_by="sglang"),
        ("target-layer-ids-missing",), ("A2",), start=speculators_pair,
    ),
    Fault(
        "one feature too few", "DF106", tensors(fc_dot_weight=("BF16", (4096, 4 * 4096))), nothing,
        ("wrong-drafter-for-target", "target-layer-ids-out-of-range"), ("A13",),
    ),
    Fault(
        "a drafter for another depth", "DF107", put(num_target_layers=40), nothing,
        ("wrong-drafter-for-target",), ("A13",), line_of="num_target_layers",
    ),
    Fault(
        "a draft model of another vocabulary", "DF107", put(vocab_size=152064), nothing,
        ("wrong-drafter-for-target",), ("A13",), start=plain_model, line_of="vocab_size",
    ),
    Fault(
        "a drafter for another class", "DF107",
        put(speculators_config__verifier__architectures=["Qwen3_5ForCausalLM"]), nothing,
        ("target-changed", "wrong-drafter-for-target"), ("A13", "G4"), "warning", start=speculators_pair,
    ),
    Fault(
        "a reduced vocabulary without a table", "DF108", tensors(d2t=None, t2d=None), nothing,
        ("draft-vocab-map-broken",), ("B3",), start=reduced_vocabulary,
        line_of="draft_vocab_size",
    ),
    Fault(
        "a table of zeros", "DF108", table([0] * 32000), table([2 * index for index in range(32000)]),
        ("draft-vocab-map-broken",), ("B3",), start=reduced_vocabulary,
    ),
    Fault(
        "a table that leads outside", "DF108", table([5 * index for index in range(32000)]),
        table([3 * index for index in range(32000)]),
        ("draft-vocab-map-broken",), ("B3",), start=reduced_vocabulary,
    ),
    Fault(
        "a table that leads two tokens to one id", "DF108", table([0, -1, *range(31998)]),
        table([0, 0, *range(31998)]), ("draft-vocab-map-broken",), ("B3",), start=reduced_vocabulary,
    ),
    Fault(
        "a table that is too short", "DF108", table([2 * index for index in range(31999)]),
        table([2 * index for index in range(32000)]),
        ("draft-vocab-map-broken",), ("B3",), start=reduced_vocabulary,
    ),
    Fault(
        "sizes that differ by padding under a shared head", "DF109", put(vocab_size=152448), nothing,
        ("target-head-not-shared", "wrong-drafter-for-target"), ("B2",), "warning", line_of="vocab_size",
    ),
    Fault(
        "no head anywhere", "DF109",
        lambda pair: pair.target_tensors.pop("lm_head.weight"),
        both(lambda pair: pair.target_tensors.pop("lm_head.weight"), put_target(tie_word_embeddings=True)),
        ("target-head-not-shared",), ("B6",),
    ),
    Fault(
        "a reduced vocabulary without a head", "DF109", tensors(lm_head_dot_weight=None), nothing,
        ("target-head-not-shared", "draft-weights-not-loaded"), ("B2",), start=reduced_vocabulary,
    ),
    Fault(
        "an own head that SGLang replaces", "DF110",
        both(tensors(lm_head_dot_weight=("BF16", (151936, 4096))),
             args("max_running_requests=64", served_by="sglang")),
        tensors(lm_head_dot_weight=("BF16", (151936, 4096))),
        ("draft-head-overwritten",), ("B1",), "warning",
    ),
    Fault(
        "an embedding scale that vLLM does not apply", "DF111",
        put(dflash_config__input_embedding_scale=64.0), put(dflash_config__input_embedding_scale=1.0),
        ("embedding-scale-missing",), ("B5",), line_of="input_embedding_scale",
    ),
    Fault(
        "a selector on a quantised head", "DF112",
        put_target(quantization_config={"quant_method": "awq", "lm_head": True}),
        put_target(quantization_config=AWQ),
        ("draft-head-quantized-unsupported",), ("B7",), "warning",
        start=lambda: edited(PairFiles(), dflash2), line_of="selector_rank",
    ),
    Fault(
        "a partial factor copied from the target", "DF113", put(rope_parameters__partial_rotary_factor=0.25),
        put(rope_parameters__partial_rotary_factor=1.0),
        ("rotary-partial-factor",), ("C1",), line_of="partial_rotary_factor",
    ),
    Fault(
        "a layout key that vLLM does not read", "DF114", put(rope_is_neox_style=False),
        put(rope_is_neox_style=False, is_neox_style=False),
        ("rotary-layout",), ("C2",), line_of="rope_is_neox_style",
    ),
    Fault(
        "a lost rotary base", "DF115",
        put(transformer_layer_config__rope_theta=None, transformer_layer_config__rope_parameters=None),
        put(transformer_layer_config__rope_theta=None), ("rotary-theta",), ("C3",), start=speculators_pair,
    ),
    Fault(
        "two rotary bases", "DF115", put(rope_theta=10000.0), nothing, ("rotary-theta",), ("C3",), "warning",
        line_of="rope_theta",
    ),
    Fault(
        "a served length past the drafter's", "DF116", args("max_model_len=131072"),
        args("max_model_len=40960"),
        ("draft-max-length",), ("C4",), line_of="max_position_embeddings",
    ),
    Fault(
        "a served length with a unit", "DF116", args("max_model_len=64k"), args("max_model_len=40K"),
        ("draft-max-length",), ("C4",), line_of="max_position_embeddings",
    ),
    Fault(
        "a length override that reaches the target alone", "DF116",
        args('hf_overrides={"max_position_embeddings": 131072}'),
        args('hf_overrides={"rope_theta": 1e6}'),
        ("draft-max-length",), ("C4",),
    ),
    Fault(
        "a target that goes further than its drafter", "DF116", put_target(max_position_embeddings=262144),
        both(put_target(max_position_embeddings=262144), args("max_model_len=32768")),
        ("draft-max-length",), ("C4",), "warning",
    ),
    Fault(
        "one layer type too few", "DF117", put(layer_types=["full_attention"] * 4), nothing,
        ("sliding-window-ignored",), ("C5",), line_of="layer_types",
    ),
    Fault(
        "sliding layers without a window", "DF117", put(layer_types=["sliding_attention"] * 5), sliding(),
        ("sliding-window-ignored",), ("C5",), line_of="layer_types",
    ),
    Fault(
        "a window that the config class forgets", "DF117", sliding(use_sliding_window=None), sliding(),
        ("sliding-window-ignored",), ("C5",), line_of="sliding_window",
    ),
    Fault(
        "windows that SGLang does not see", "DF117",
        both(put(dflash_config__use_swa=True, dflash_config__swa_window_size=2048),
             args("max_running_requests=64", served_by="sglang")),
        put(dflash_config__use_swa=True, dflash_config__swa_window_size=2048),
        ("sliding-window-ignored",), ("C5",), line_of="use_swa",
    ),
    Fault(
        "all layers causal by speculators' flag", "DF118", put(sliding_window_non_causal=False), nothing,
        ("causal-flag",), ("C8",), start=speculators_pair, line_of="sliding_window_non_causal",
    ),
    Fault(
        "sliding layers that Transformers runs bidirectional", "DF118",
        both(sliding(), args(served_by="transformers")), both(sliding(is_causal=False),
                                                             args(served_by="transformers")),
        ("causal-flag",), ("C8",),
    ),
    Fault(
        "an anchor that predicts", "DF119", put(sample_from_anchor=True), put(sample_from_anchor=False),
        ("block-layout-anchor",), ("C6",), line_of="sample_from_anchor",
    ),
    Fault(
        "a family whose anchor predicts", "DF119", lambda pair: rename(pair, "dspark_qwen3_8b_block16"),
        lambda pair: rename(pair, "qwen3_8b_b16"), ("block-layout-anchor",), ("C6",), "warning",
    ),
    Fault(
        "a Domino drafter under vLLM", "DF120", put(dflash_config__projector_type="domino"),
        both(
            put(dflash_config__projector_type="domino"),
            args("max_running_requests=64", served_by="sglang"),
        ),
        ("backend-capability-missing",), ("I7",),
    ),
    Fault(
        "a plain class over a drafter's keys", "DF120", put(architectures=["Qwen3ForCausalLM"]), nothing,
        ("backend-capability-missing",), ("I7",), line_of="architectures",
    ),
    Fault(
        "mixed layers on the V1 runner", "DF120",
        both(put(layer_types=["sliding_attention"] * 4 + ["full_attention"], sliding_window=2048,
                 use_sliding_window=True),
             lambda pair: pair.variables.update(VLLM_USE_V2_MODEL_RUNNER="0")),
        both(put(layer_types=["sliding_attention"] * 4 + ["full_attention"], sliding_window=2048,
                 use_sliding_window=True),
             lambda pair: pair.variables.update(VLLM_USE_V2_MODEL_RUNNER="1")),
        ("backend-capability-missing",), ("I7",), line_of="layer_types",
    ),
    Fault(
        "DFlash2 tensors under a DFlash1 class", "DF121",
        both(dflash2, put(architectures=["DFlashDraftModel"], dflash_config__conv_kernel_size=None,
                          dflash_config__selector_rank=None)),
        dflash2, ("dflash2-as-dflash1",), ("C15",), line_of="architectures",
    ),
    Fault(
        "a bfloat16 drafter in float16", "DF122", args("dtype=float16"), args("dtype=bfloat16"),
        ("draft-dtype-overflow",), ("D1",), line_of="dtype",
    ),
    Fault(
        "an AWQ target that defaults to float16", "DF122",
        put_target(dtype="float16", quantization_config=AWQ), put_target(quantization_config=AWQ),
        ("draft-dtype-overflow",), ("D1",),
    ),
    Fault(
        "a missing tensor", "DF123", tensors(layers_dot_3_dot_mlp_dot_down_proj_dot_weight=None), nothing,
        ("draft-weights-not-loaded",), ("D2",),
    ),
    Fault(
        "a tensor that nobody loads", "DF123", tensors(encoder_dot_gate_dot_weight=("BF16", (4096, 4096))),
        tensors(embed_tokens_dot_weight=("BF16", (151936, 4096))), ("draft-weights-not-loaded",), ("D2",),
    ),
    Fault(
        "one layer more than the config says", "DF123",
        lambda pair: pair.draft_tensors.update(layer_tensors(5)), nothing,
        ("draft-weights-not-loaded",), ("D2",), line_of="num_hidden_layers",
    ),
    Fault(
        "a tensor of another shape", "DF123",
        tensors(layers_dot_0_dot_self_attn_dot_k_proj_dot_weight=("BF16", (2048, 4096))), nothing,
        ("draft-weights-not-loaded",), ("D2",),
    ),
    Fault(
        "a norm of another width", "DF123", tensors(hidden_norm_dot_weight=("BF16", (8192,))), nothing,
        ("draft-weights-not-loaded",), ("D2",),
    ),
    Fault(
        "the target's quantisation as an argument", "DF124", args("quantization=modelopt_fp4"),
        args("quantization=modelopt_fp4", "speculative_config.quantization=fp8"),
        ("draft-quantization-inherited",), ("D3",), "warning",
    ),
    Fault(
        "a rotated target", "DF125",
        put_target(quantization_config={"quant_method": "ascend", "rotation": "hadamard"}),
        put_target(quantization_config={"quant_method": "ascend", "rotation": None}),
        ("target-features-rotated",), ("A9",),
    ),
    Fault(
        "simulated acceptance in SGLang", "DF126",
        lambda pair: pair.variables.update(SGLANG_SIMULATE_ACC_LEN="4"),
        lambda pair: pair.variables.update(SGLANG_SIMULATE_ACC_LEN="-1"),
        ("lossy-acceptance-configured",), ("F",),
    ),
    Fault(
        "synthetic rejection in vLLM", "DF126", args("speculative_config.rejection_sample_method=synthetic"),
        args("speculative_config.rejection_sample_method=block"),
        ("lossy-acceptance-configured",), ("F",),
    ),
    Fault(
        "acceptance thresholds below one", "DF126", args("speculative_accept_threshold_single=0.9"),
        args("speculative_accept_threshold_single=1.0"), ("lossy-acceptance-configured",), ("F",),
    ),
    Fault(
        "pipeline parallelism", "DF127", args("pipeline_parallel_size=2"), args("pipeline_parallel_size=1"),
        ("tensor-parallel-inconsistent",), ("E9",),
    ),
    Fault(
        "prompt embeddings", "DF127", args("enable_prompt_embeds=true"), args("enable_prompt_embeds=false"),
        ("draft-context-polluted",), ("E10",), "warning",
    ),
    Fault(
        "fused projections over ranks", "DF127", args("tensor_parallel_size=8"), nothing,
        ("tensor-parallel-inconsistent",), ("D5",), "warning", start=lambda: edited(PairFiles(), fused),
    ),
    Fault(
        "heads that do not divide", "DF127", args("tensor_parallel_size=6"), args("tensor_parallel_size=8"),
        ("tensor-parallel-inconsistent",), ("D5",),
    ),
    Fault(
        "a pass too small for a batch of drafts", "DF127",
        args("max_num_batched_tokens=2048", "max_num_seqs=256"),
        args("max_num_batched_tokens=4096", "max_num_seqs=256"),
        ("concurrency-too-high",), ("I1",), "warning",
    ),
    Fault(
        "a head size that FlashInfer lacks", "DF128",
        both(args("speculative_config.attention_backend=FLASHINFER"), lambda pair: narrow(pair, 96)),
        lambda pair: narrow(pair, 96),
        ("attention-backend-incompatible",), ("C13",), line_of="head_dim",
    ),
    Fault(
        "a KV cache that the backend does not read", "DF128",
        args("attention_backend=FLASH_ATTN", "kv_cache_dtype=fp8_e5m2"),
        args("attention_backend=FLASH_ATTN", "kv_cache_dtype=fp8"),
        ("attention-backend-incompatible",), ("C14",),
    ),
    Fault(
        "a quantised KV cache and no backend named", "DF128", args("kv_cache_dtype=fp8"),
        args("kv_cache_dtype=auto"), ("attention-backend-incompatible",), ("C14",), "warning",
    ),
    Fault(
        "windows that trtllm_mha approximates", "DF128",
        both(sliding(is_causal=False), args("speculative_draft_attention_backend=trtllm_mha",
                                            "max_running_requests=64", served_by="sglang")),
        both(sliding(is_causal=True), args("speculative_draft_attention_backend=trtllm_mha",
                                           "max_running_requests=64", served_by="sglang")),
        ("sliding-window-ignored", "attention-backend-incompatible"), ("C11",), "warning",
    ),
    Fault(
        "a block drafter under EAGLE-3", "DF132", args(method="eagle3"), args(method="dflash"),
        ("block-layout-anchor",), ("C6",), line_of="architectures",
    ),
    Fault(
        "no mask token", "DF131", put(dflash_config__mask_token_id=None), nothing,
        ("mask-token-wrong",), ("B4",),
    ),
    Fault(
        "a mask token outside the embedding", "DF131", put(dflash_config__mask_token_id=151936),
        put(dflash_config__mask_token_id=151935), ("mask-token-wrong",), ("B4",), line_of="mask_token_id",
    ),
    Fault(
        "a mask embedding left behind", "DF131", put(dflash_config__attention_sink_bias=True),
        both(put(dflash_config__attention_sink_bias=True),
             lambda pair: pair.side_files.update({"mask_embedding.pt": b"x"})),
        ("mask-token-wrong",), ("B4",),
    ),
)  # fmt: skip


def edited(pair: PairFiles, edit: Edit) -> PairFiles:
    edit(pair)
    return pair


def rename(pair: PairFiles, name: str) -> None:
    pair.names = ("target", name)


def narrow(pair: PairFiles, size: int) -> None:
    """Heads of another size, with tensors to match."""
    pair.draft["head_dim"] = size
    for index in range(5):
        pair.draft_tensors |= layer_tensors(index, pair.draft)


def loud(findings: list[Finding]) -> list[Finding]:
    return [item for item in findings if item.severity != "info"]


def found_in(pair: PairFiles, folder: Path) -> list[Finding]:
    record = pair.inspect(folder).record
    assert [check for check in record.checks if check.verdict == "errored"] == []
    return [finding for check in record.checks for finding in check.findings]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_check_when_a_fault_is_there_then_it_and_no_other_check_says_so(fault: Fault, tmp_path: Path) -> None:
    pair = fault.start()
    fault.wrong(pair)
    findings = loud(found_in(pair, tmp_path))
    assert {item.code for item in findings} == {fault.code}
    finding = findings[0]
    assert finding.severity == fault.severity
    assert finding.causes == fault.causes
    assert finding.message
    assert finding.observed
    assert finding.remedy
    if fault.line_of is not None:
        assert finding.where.file is not None
        assert finding.where.line is not None
        line = Path(finding.where.file).read_text().splitlines()[finding.where.line - 1]
        assert f'"{fault.line_of}"' in line


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_check_when_it_is_done_right_then_nothing_is_said(fault: Fault, tmp_path: Path) -> None:
    pair = fault.start()
    fault.right(pair)
    record = pair.inspect(tmp_path).record
    findings = [item for check in record.checks for item in check.findings]
    assert [f"{item.code} {item.message}: {item.observed}" for item in loud(findings)] == []
    assert record.verdict == "passed"


def test_faults_when_listed_then_every_cause_explains_its_failure_modes() -> None:
    known = causes()
    for fault in FAULTS:
        explained = {mode for name in fault.causes for mode in known[name].failure_modes}
        assert set(fault.modes) <= explained, fault.name


def notes_of(code: str, pair: PairFiles, folder: Path) -> list[Finding]:
    return [item for item in found_in(pair, folder) if item.code == code and item.severity == "info"]


def test_layout_when_the_target_is_interleaved_and_no_key_says_it_then_a_note_tells(tmp_path: Path) -> None:
    pair = PairFiles()
    pair.target |= {"model_type": "glm4", "architectures": ["Glm4ForCausalLM"]}
    assert "names no layout" in notes_of("DF114", pair, tmp_path / "silent")[0].message
    pair.draft["is_neox_style"] = True
    assert notes_of("DF114", pair, tmp_path / "stated") == []


def test_theta_when_it_stands_in_one_place_then_a_note_names_who_would_miss_it(tmp_path: Path) -> None:
    pair = PairFiles()
    del pair.draft["rope_parameters"]
    note = notes_of("DF115", pair, tmp_path / "top")[0]
    assert note.observed == "rope_theta is stated, rope_parameters.rope_theta is not"
    assert "code that reads only rope_parameters" in note.remedy
    pair = PairFiles()
    del pair.draft["rope_theta"]
    assert "Transformers 4" in notes_of("DF115", pair, tmp_path / "inner")[0].remedy


def test_causality_when_other_engines_would_misread_then_notes_name_them(tmp_path: Path) -> None:
    pair = PairFiles()
    sliding(is_causal=True)(pair)
    notes = notes_of("DF118", pair, tmp_path)
    assert [item.message for item in notes] == [
        "served with transformers, the block would have another causality"
    ]
    assert "always bidirectional" in notes[0].observed


@pytest.mark.parametrize("asked", ["auto", "-1"])
def test_length_when_the_engine_is_to_choose_it_then_it_is_not_checked(asked: str, tmp_path: Path) -> None:
    pair = PairFiles()
    pair.arg(f"max_model_len={asked}")
    check = next(item for item in pair.inspect(tmp_path).record.checks if item.code == "DF116")
    assert (check.verdict, check.reason) == ("skipped", "not checked: the served length is not stated")


def test_windows_when_an_engine_loses_them_then_the_remedy_names_one_that_keeps_them(tmp_path: Path) -> None:
    pair = PairFiles(settings={"served_by": "sglang"})
    pair.arg("max_running_requests=64")
    pair.dflash.update(use_swa=True, swa_window_size=2048)
    finding = next(item for item in found_in(pair, tmp_path) if item.code == "DF117")
    assert finding.remedy.startswith("state layer_types and sliding_window at top level, or serve with vllm")


def test_method_when_both_folders_are_one_then_says_so(tmp_path: Path) -> None:
    settings = PairFiles().write(tmp_path)
    record = inspect(dataclasses.replace(settings, target=settings.draft), environ={}).record
    messages = [item.message for check in record.checks for item in check.findings if item.code == "DF132"]
    assert messages == ["target and drafter are the same folder"]


def test_target_when_it_is_recurrent_then_a_note_asks_for_proof(tmp_path: Path) -> None:
    pair = PairFiles()
    pair.target["layer_types"] = ["linear_attention"] * 27 + ["full_attention"] * 9
    note = notes_of("DF130", pair, tmp_path / "hybrid")[0]
    assert note.observed == "linear_attention among its layers"
    assert note.causes[0] == "recurrent-state-not-rolled-back"
    pair.target["layer_types"] = ["sliding_attention"] * 27 + ["full_attention"] * 9
    assert notes_of("DF130", pair, tmp_path / "windows") == []


def test_name_when_the_drafter_was_made_for_a_relative_then_a_note_says_measure(tmp_path: Path) -> None:
    pair = speculators_pair()
    pair.draft["speculators_config"]["verifier"]["name_or_path"] = "Qwen/Qwen3-8B-Base"
    note = notes_of("DF107", pair, tmp_path)[0]
    assert note.causes == ("target-changed", "wrong-drafter-for-target")
    assert "Qwen/Qwen3-8B-Base in the drafter's config" in note.observed


def test_revision_when_a_cached_hub_id_is_not_pinned_then_offers_the_commit_that_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "a" * 40
    for name in ("target", "draft"):
        home = tmp_path / "hub" / f"models--owner--{name}"
        pair = PairFiles()
        pair.names = ("target", "draft")
        pair.write(home / "written")
        (home / "snapshots").mkdir()
        (home / "written" / name).rename(home / "snapshots" / commit)
        (home / "refs").mkdir()
        (home / "refs" / "main").write_text(commit)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    loose = inspect(Settings(target="owner/target", draft="owner/draft")).record
    edits = {item.edit for check in loose.checks for item in check.findings if item.code == "DF129"}
    assert edits == {
        f"--engine-arg revision={commit}",
        f"--engine-arg speculative_config.revision={commit}",
    }
    pinned = tuple(str(edit).removeprefix("--engine-arg ") for edit in edits)
    record = inspect(Settings(target="owner/target", draft="owner/draft", engine_arg=pinned)).record
    assert [item for check in record.checks for item in check.findings if item.code == "DF129"] == []
    assert record.verdict == "passed"
