"""The reference drafters against other people's code, where it is installed (CONTRIBUTING.md says how).

z-lab's `dflash` is the code that the drafters were published with, `speculators` a trainer's, and vLLM's V2
runner the only engine of this set that runs DFlash2.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the reference drafter needs torch")
transformers = pytest.importorskip("transformers", reason="the reference target needs transformers")

from dflash2_folder import PAIR, write_dflash2, write_dflash2_pair  # noqa: E402
from doctor_process import require_vllm  # noqa: E402

from dflash_doctor.reference.drafting import Borrowed, Drafting, drafts_at, hidden_at, logits_of  # noqa: E402
from dflash_doctor.reference.drafting import prepare as prepare_drafting  # noqa: E402
from dflash_doctor.reference.knobs import Knobs  # noqa: E402
from dflash_doctor.reference.loading import DrafterFiles, load_drafter  # noqa: E402
from dflash_doctor.reference.target import layer_outputs  # noqa: E402

ANCHORS = (1, 5, 17, 30, 51)
WINDOWED = {
    "layer_types": ["sliding_attention"] * 2,
    "use_sliding_window": True,
    "sliding_window": 12,
}
DECODE = Path(__file__).parent.parent / "engines" / "decode_with_vllm.py"


@pytest.fixture(scope="module")
def target() -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(PAIR / "target", dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def tokens(target: Any) -> list[int]:
    """A text of 60 tokens that the target wrote, for the most part."""
    prompt = torch.tensor([[1, 50, 60, 70, 80]])
    written = target.generate(prompt, max_new_tokens=55, min_new_tokens=55, do_sample=False)
    return [int(token) for token in written[0]]


@pytest.fixture
def zlab() -> Any:
    return pytest.importorskip("dflash.model", reason="z-lab's `dflash` is not installed")


@pytest.fixture
def speculators(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package with the anchors fixed, which it would draw at random."""
    pytest.importorskip("speculators", reason="`speculators` is not installed, or a package it needs")
    from speculators.models.dflash import core

    anchors = torch.tensor(ANCHORS)
    monkeypatch.setattr(core, "select_anchors", lambda *_: (anchors, torch.ones_like(anchors, dtype=bool)))
    return core


def prepared(folder: Path, target: Any, knobs: Knobs | None = None) -> Drafting:
    borrowed = Borrowed(
        embedding=target.get_input_embeddings().weight, head=target.get_output_embeddings().weight
    )
    return prepare_drafting(DrafterFiles(drafter=load_drafter(folder)), borrowed, knobs or Knobs())


def ours(folder: Path, target: Any, tokens: list[int]) -> tuple[Any, Any]:
    """Draft logits [A, K, vocabulary] and drafts [A, K] at the anchors."""
    drafting = prepared(folder, target)
    states, _ = layer_outputs(target, tokens, drafting.taps)
    text, anchors = torch.tensor(tokens), torch.tensor(ANCHORS)
    logits = logits_of(drafting, hidden_at(drafting, states, text, anchors))
    return logits, drafts_at(drafting, states, text, anchors)


@torch.inference_mode()
def theirs(model: Any, target: Any, tokens: list[int], anchor: int) -> Any:
    """Final hidden states [1, K, hidden] of z-lab's model at one anchor."""
    states, _ = layer_outputs(target, tokens[:anchor], model.target_layer_ids)
    features = torch.cat([states[index] for index in model.target_layer_ids], dim=-1)
    slots = [tokens[anchor], *[model.mask_token_id] * (model.block_size - 1)]
    return model(
        target_hidden=features[None],
        noise_embedding=target.get_input_embeddings()(torch.tensor([slots])),
        position_ids=torch.arange(anchor + model.block_size)[None],
    )[:, 1:]


def assert_same(left: Any, right: Any) -> None:
    """Equal up to the order of float32 sums; the logits span tens."""
    assert left.shape == right.shape
    gap = (left - right).abs().max().item()
    print(f"largest difference of {left.numel()} logits in {left.min():.3g} to {left.max():.3g}: {gap:.2g}")
    assert gap < 1e-4


@torch.inference_mode()
def test_logits_when_compared_with_zlabs_dflash_then_are_the_same(
    zlab: Any, target: Any, tokens: list[int]
) -> None:
    model = zlab.DFlashDraftModel.from_pretrained(PAIR / "draft", dtype=torch.float32).eval()
    hidden = torch.cat([theirs(model, target, tokens, anchor) for anchor in ANCHORS])
    assert_same(ours(PAIR / "draft", target, tokens)[0], model.compute_logits(hidden, target.lm_head))


@torch.inference_mode()
@pytest.mark.parametrize(
    "changes",
    [
        {},
        WINDOWED,
        {"conv_kernel_size": 2, "conv_group_size": 8, "selector_rank": 16, "selector_top_k": 4},
        WINDOWED | {"is_causal": True},
        {"output_multiplier": 0.5, "final_logit_softcapping": 4.0, "selector_top_k": 32},
    ],
    ids=["full", "windowed", "other sizes", "causal", "scaled"],
)
def test_drafts_when_compared_with_zlabs_dflash2_then_are_the_same(
    changes: dict[str, Any], zlab: Any, target: Any, tokens: list[int], tmp_path: Path
) -> None:
    folder = write_dflash2(tmp_path / "draft", **changes)
    model = zlab.DFlash2DraftModel.from_pretrained(folder, dtype=torch.float32).eval()
    hidden = torch.cat([theirs(model, target, tokens, anchor) for anchor in ANCHORS])
    logits, drafts = ours(folder, target, tokens)
    assert_same(logits, model.compute_logits(hidden, target.lm_head))
    anchor_ids = torch.tensor([tokens[anchor] for anchor in ANCHORS])
    selected, _, _ = model.propose(hidden, anchor_ids, target.lm_head, 0.0)
    assert torch.equal(drafts, selected)
    assert not torch.equal(drafts, logits.argmax(-1)), "a selector that changes nothing shows nothing"


@torch.inference_mode()
def test_logits_when_compared_with_speculators_then_are_the_same(
    speculators: Any, target: Any, tokens: list[int], tmp_path: Path
) -> None:
    from speculators.convert.dflash import DFlashConverter

    DFlashConverter().convert(str(PAIR / "draft"), str(tmp_path), str(PAIR / "target"), validate=False)
    config = speculators.DFlashSpeculatorConfig.from_pretrained(tmp_path)
    config.transformer_layer_config._attn_implementation = "eager"
    model = speculators.DFlashDraftModel.from_pretrained(tmp_path, config=config).float().eval()
    model.load_verifier_weights()
    ids = torch.tensor([tokens])
    taps = [index - 1 for index in config.aux_hidden_state_layer_ids]
    states, _ = layer_outputs(target, tokens, [*taps, 5])
    features = torch.cat([states[index] for index in taps], dim=-1)[None]
    _, logits, *_ = model._backbone_forward(
        features,
        ids,
        torch.ones_like(ids),
        states[5][None],
        torch.zeros_like(ids),
        max_anchors=len(ANCHORS),
    )
    by_block = logits[0].view(len(ANCHORS), model.block_size, -1)
    assert_same(ours(PAIR / "draft", target, tokens)[0], by_block[:, 1:])


@pytest.mark.engine
def test_drafts_when_vllms_v2_runner_runs_dflash2_then_are_the_same(target: Any, tmp_path: Path) -> None:
    """In float32 on both sides, as often as any draft was made.

    vLLM 0.32 on a CPU normalises the context's keys with layer 0's weights in every layer; a knob of the
    reference does the same. A version without that defect must agree without the knob.
    """
    require_vllm()
    if importlib.util.find_spec("triton") is None:
        pytest.skip("the V2 runner needs Triton, which is interpreted here")
    pair = write_dflash2_pair(tmp_path / "pair", **WINDOWED)
    done = subprocess.run(
        [sys.executable, str(DECODE), "v2", str(pair), "2", "12", "float32"],
        capture_output=True,
        text=True,
        env=dict(os.environ, VLLM_LOGGING_LEVEL="ERROR"),
        timeout=600,
    )
    marked = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert marked, done.stderr[-3000:]
    draftings = [prepared(pair / "draft", target, Knobs(context_key_norm_of=norm)) for norm in (0, None)]
    equal, compared = [0, 0], 0
    for trace in json.loads(marked[0].removeprefix("RESULT "))["generation"]["requests"]:
        text = trace["prompt_ids"] + trace["output_ids"]
        states, _ = layer_outputs(target, text, draftings[0].taps)
        anchors = torch.tensor([step["position"] - 1 for step in trace["steps"]])
        found = [drafts_at(drafting, states, torch.tensor(text), anchors).tolist() for drafting in draftings]
        for index, step in enumerate(trace["steps"]):
            drafted = step["draft_ids"]
            for arm in (0, 1):
                equal[arm] += found[arm][index][: len(drafted)] == drafted
            compared += 1
    assert compared > 5
    assert compared in equal, f"equal in {equal} of {compared} steps, with and without the defect"
