"""The plain drafter, on the bundled pair, drafts what a DFlash drafter must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the reference drafter needs torch")
transformers = pytest.importorskip("transformers", reason="the reference target needs transformers")

from dflash_doctor.bundled import bundled_fixtures  # noqa: E402
from dflash_doctor.errors import UsageError  # noqa: E402
from dflash_doctor.reference.dflash import (  # noqa: E402
    Drafter,
    draft_block,
    load_drafter,
    rotate,
    tap_features,
)
from dflash_doctor.tinypair.drafter import walk, with_features  # noqa: E402
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
    embedding, head = target.get_input_embeddings(), target.get_output_embeddings()
    steps = [
        count
        for prompt, answer in zip(prompts, answers, strict=True)
        for count in walk(
            drafter, embedding, head, with_features(target, prompt + answer, len(prompt), (1, 3, 4))
        )
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
    embedding, head = target.get_input_embeddings(), target.get_output_embeddings()
    compared = 0
    for trace in generation.requests:
        tokens = trace.prompt_ids + trace.output_ids
        features = with_features(target, tokens, len(trace.prompt_ids), (1, 3, 4)).features
        for step in trace.steps or ():
            assert step.position is not None
            anchor = step.position - 1
            logits = draft_block(drafter, embedding, head, features[:anchor], tokens[anchor])
            assert tuple(logits.argmax(-1).tolist()[: step.num_drafted]) == step.draft_ids
            compared += 1
    assert compared > 20


def test_draft_block_when_the_context_changes_then_the_draft_changes(target: Any, drafter: Drafter) -> None:
    embedding, head = target.get_input_embeddings(), target.get_output_embeddings()
    generator = torch.Generator().manual_seed(0)
    one, other = (torch.randn(9, 384, generator=generator) for _ in range(2))
    left = draft_block(drafter, embedding, head, one, 50)
    right = draft_block(drafter, embedding, head, other, 50)
    assert left.shape == (7, 1024)
    assert not torch.allclose(left, right)


def test_rotate_when_positions_shift_together_then_inner_products_stay() -> None:
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 2, 5, 8, generator=generator) for _ in range(2))
    positions = torch.arange(5)[None]
    here = rotate(query, positions, 1e4) @ rotate(key, positions, 1e4).transpose(-1, -2)
    there = rotate(query, positions + 700, 1e4) @ rotate(key, positions + 700, 1e4).transpose(-1, -2)
    assert torch.allclose(here, there, atol=1e-3)
    assert torch.equal(rotate(query, torch.zeros(1, 5, dtype=torch.long), 1e4), query)
