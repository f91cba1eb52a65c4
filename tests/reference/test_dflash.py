"""The plain drafter, on the bundled pair, drafts what a DFlash drafter must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the reference drafter needs torch")
transformers = pytest.importorskip("transformers", reason="the reference target needs transformers")

from dflash_doctor.bundled import bundled_fixtures  # noqa: E402
from dflash_doctor.errors import UsageError  # noqa: E402
from dflash_doctor.reference.config import read_drafter_config  # noqa: E402
from dflash_doctor.reference.dflash import Drafter  # noqa: E402
from dflash_doctor.reference.drafting import (  # noqa: E402
    Borrowed,
    Drafting,
    accepted_at,
    drafts_at,
    hidden_at,
    logits_of,
    prepare,
    walk,
)
from dflash_doctor.reference.knobs import Knobs  # noqa: E402
from dflash_doctor.reference.loading import DrafterFiles, load_drafter, load_drafter_files  # noqa: E402
from dflash_doctor.reference.rotary import Rotary  # noqa: E402
from dflash_doctor.reference.target import layer_outputs, tap_features  # noqa: E402
from dflash_doctor.tinypair.drafter import accepted_along  # noqa: E402
from dflash_doctor.tinypair.target import complete  # noqa: E402
from dflash_doctor.workloads.prompts import load_prompts  # noqa: E402

PAIR = bundled_fixtures() / "tiny_pair"


@pytest.fixture(scope="module")
def target() -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(PAIR / "target", dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def drafter() -> Drafter:
    return load_drafter(PAIR / "draft")


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(PAIR / "target")
    chosen = load_prompts(PAIR / "prompts.jsonl").prompts[::10]
    return [
        tokenizer.encode(
            tokenizer.apply_chat_template(
                list(prompt.messages or ()), add_generation_prompt=True, tokenize=False, enable_thinking=False
            ),
            add_special_tokens=False,
        )
        for prompt in chosen
    ]


def test_load_drafter_when_given_the_bundled_draft_then_has_its_shape(drafter: Drafter) -> None:
    config = drafter.config
    assert (config.block_size, config.mask_token_id, config.target_layer_ids) == (8, 3, (1, 3, 4))
    assert sum(parameter.numel() for parameter in drafter.parameters()) == pytest.approx(0.45e6, rel=0.03)


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda t: t.pop("layers.1.mlp.down_proj.weight"), r"layers\.1\.mlp\.down_proj\.weight is missing"),
        (
            lambda t: t.update({"layers.2.mlp.up_proj.weight": t["norm.weight"].clone()}),
            r"layers\.2\.mlp.* is unknown",
        ),
        (lambda t: t.update({"fc.weight": t["fc.weight"][:, :256].clone()}), r"\[128, 256\].*\[128, 384\]"),
    ],
    ids=["missing", "left over", "misshapen"],
)
def test_load_drafter_when_a_tensor_does_not_fit_then_names_it(edit: Any, named: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(PAIR / "draft" / "model.safetensors")
    edit(tensors)
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((PAIR / "draft" / "config.json").read_text())
    with pytest.raises(UsageError, match=named):
        load_drafter(tmp_path)


def test_load_drafter_when_there_are_no_weights_or_half_of_them_then_says_so(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((PAIR / "draft" / "config.json").read_text())
    with pytest.raises(UsageError, match=r"no \*\.safetensors file"):
        load_drafter(tmp_path)
    whole = (PAIR / "draft" / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match="weights cannot be read"):
        load_drafter(tmp_path)


@torch.inference_mode()
def test_tap_features_when_compared_with_hidden_states_then_are_layer_outputs_in_the_order_given(
    target: Any, prompts: list[list[int]]
) -> None:
    """Entry i + 1 of `hidden_states` is layer i's output, but the last entry is behind the final norm."""
    tokens = prompts[0]
    states = target(input_ids=torch.tensor([tokens]), output_hidden_states=True).hidden_states
    features = tap_features(target, tokens, (4, 1))
    assert torch.equal(features, torch.cat([states[5][0], states[2][0]], dim=-1))
    last = tap_features(target, tokens, (5,))
    assert not torch.allclose(last, states[6][0], atol=1e-2)
    assert torch.allclose(target.model.norm(last), states[6][0], atol=1e-5)


def test_tap_features_when_a_tap_lies_outside_then_says_so_and_leaves_no_hook(target: Any) -> None:
    def hooks() -> list[int]:
        return [len(layer._forward_hooks) for layer in target.model.layers]

    before = hooks()
    with pytest.raises(UsageError, match=r"target_layer_ids \[6\], the target has 6 layers"):
        tap_features(target, [4, 5], (1, 6))
    tap_features(target, [4, 5], (1,))
    assert hooks() == before


def test_walk_when_the_pair_is_the_bundled_one_then_accepts_as_measured_in_the_engine(
    target: Any, drafter: Drafter, prompts: list[list[int]]
) -> None:
    answers = complete(target, prompts, end_id=2, max_tokens=128)
    steps = [
        count
        for prompt, answer in zip(prompts, answers, strict=True)
        for count in accepted_along(drafter, target, prompt + answer, len(prompt))
    ]
    # These 20 prompts are harder than all 200 (4.19; the engine's 4.09 in bfloat16).
    # A tap off by one costs 0.5.
    assert 1 + sum(steps) / len(steps) == pytest.approx(3.64, abs=0.2)


def test_draft_block_when_compared_with_transformers_own_dflash_then_accepts_the_same_at_every_step(
    target: Any, drafter: Drafter, prompts: list[list[int]]
) -> None:
    from dflash_doctor.engines.base import EngineOptions, Sampling, TokenizedPrompt
    from dflash_doctor.engines.transformers_native import build_engine

    options = EngineOptions(
        target=str(PAIR / "target"), draft=str(PAIR / "draft"), engine_args={"dtype": "float32"}
    )
    requests = [
        TokenizedPrompt(prompt_id=str(index), category="c", token_ids=tuple(prompt))
        for index, prompt in enumerate(prompts[:4])
    ]
    with build_engine(options) as engine:
        generation = engine.generate(requests, Sampling(max_tokens=64), capture=True)
    drafting = ready(drafter, target)
    compared = 0
    for trace in generation.requests:
        tokens = trace.prompt_ids + trace.output_ids
        steps = [step for step in trace.steps or () if step.position is not None]
        anchors = torch.tensor([(step.position or 0) - 1 for step in steps])
        drafts = drafts_along(drafting, target, tokens, anchors)
        for step, own in zip(steps, drafts.tolist(), strict=True):
            assert tuple(own[: step.num_drafted]) == step.draft_ids
            compared += 1
    assert compared > 20


def test_drafts_at_when_the_context_changes_then_the_draft_changes(target: Any, drafter: Drafter) -> None:
    drafting = ready(drafter, target)
    generator = torch.Generator().manual_seed(0)
    tokens, anchors = torch.arange(50, 60), torch.tensor([8])

    def hidden() -> Any:
        return hidden_at(
            drafting, {tap: torch.randn(10, 128, generator=generator) for tap in (1, 3, 4)}, tokens, anchors
        )

    left, right = hidden(), hidden()
    assert left.shape == (1, 7, 128)
    assert logits_of(drafting, left).shape == (1, 7, 1024)
    assert not torch.allclose(left, right)


def test_drafts_at_when_anchors_are_drafted_together_then_are_as_alone(
    target: Any, drafter: Drafter, prompts: list[list[int]]
) -> None:
    """Blocks of one text do not see each other, nor anything behind their anchor."""
    drafting = ready(drafter, target)
    tokens = prompts[0] + list(range(100, 120))
    anchors = torch.arange(20, len(tokens) - 1, 3)
    together = drafts_along(drafting, target, tokens, anchors)
    for index, anchor in enumerate(anchors.tolist()):
        alone = drafts_along(drafting, target, tokens[: anchor + 1], torch.tensor([anchor]))
        assert torch.equal(together[index], alone[0])


def test_walk_when_everything_or_nothing_is_accepted_then_counts_steps() -> None:
    assert walk([0, 0, 0], 5, 9) == [0, 0, 0]
    assert walk([2, 9, 9], 5, 9) == [2]
    assert walk([1, 9, 0], 5, 9) == [1, 0]
    assert walk([], 8, 9) == []


def test_accepted_at_when_a_draft_reaches_past_the_text_then_counts_what_stands_in_it() -> None:
    tokens = torch.tensor([5, 6, 7, 8])
    drafts = torch.tensor([[6, 7, 8, 1], [7, 9, 9, 9], [8, 0, 0, 0]])
    assert accepted_at(drafts, tokens, torch.tensor([0, 1, 2])).tolist() == [3, 1, 1]


@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize("part", [1.0, 0.5])
def test_rotary_when_positions_shift_together_then_inner_products_stay(neox: bool, part: float) -> None:
    import dataclasses

    config = dataclasses.replace(
        read_drafter_config(PAIR / "draft"), head_dim=8, neox=neox, partial_rotary_factor=part
    )
    rotary = Rotary(config, torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 2, 5, 8, generator=generator) for _ in range(2))
    positions = torch.arange(5)[None]
    here = rotary(query, positions) @ rotary(key, positions).transpose(-1, -2)
    there = rotary(query, positions + 700) @ rotary(key, positions + 700).transpose(-1, -2)
    assert torch.allclose(here, there, atol=1e-3)
    assert torch.equal(rotary(query, torch.zeros(1, 5, dtype=torch.long)), query)
    turned = rotary(query, positions)
    assert torch.equal(turned[..., 4:], query[..., 4:]) == (part == 0.5)


@pytest.mark.parametrize("kind", ["linear", "llama3", "yarn"])
def test_rotary_when_it_is_scaled_then_turns_slower_than_plain(kind: str) -> None:
    import dataclasses

    scaling = {"rope_type": kind, "factor": 4.0, "original_max_position_embeddings": 64}
    if kind == "llama3":
        scaling |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    plain = read_drafter_config(PAIR / "draft")
    scaled = dataclasses.replace(plain, rope_scaling=scaling, max_position_embeddings=256)
    x = torch.zeros(1, 1, 1, 32)
    x[..., 15] = 1.0  # the slowest pair
    far = torch.tensor([[100]])
    slow, fast = (Rotary(config, torch.device("cpu"))(x, far)[0, 0, 0] for config in (scaled, plain))
    assert abs(slow[31]) < abs(fast[31])


def test_load_drafter_files_when_tensors_are_missing_or_more_then_fills_and_names_them(
    tmp_path: Path,
) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(PAIR / "draft" / "model.safetensors")
    tensors.pop("layers.1.mlp.down_proj.weight")
    tensors.pop("norm.weight")
    tensors |= {"lm_head.weight": torch.ones(8, 128), "d2t": torch.arange(8), "odd": torch.ones(1)}
    save_file(tensors, tmp_path / "model.safetensors")
    files = load_drafter_files(tmp_path, read_drafter_config(PAIR / "draft"))
    assert files.missing == ("layers.1.mlp.down_proj.weight", "norm.weight")
    assert files.ignored == ("odd",)
    assert files.head is not None
    assert files.vocab_map is not None
    assert not files.drafter.layers[1].mlp.down_proj.weight.any()
    assert bool((files.drafter.norm.weight == 1).all())


def ready(drafter: Drafter, target: Any, knobs: Knobs | None = None) -> Drafting:
    borrowed = Borrowed(
        embedding=target.get_input_embeddings().weight, head=target.get_output_embeddings().weight
    )
    return prepare(DrafterFiles(drafter=drafter), borrowed, knobs or Knobs())


def drafts_along(drafting: Drafting, target: Any, tokens: Any, anchors: Any) -> Any:
    states, _ = layer_outputs(target, tokens, drafting.taps)
    return drafts_at(drafting, states, torch.tensor(list(tokens)), anchors)
