"""DFlash2's convolution and selector, by hand-worked cases and against plain DFlash."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the reference drafter needs torch")
transformers = pytest.importorskip("transformers", reason="the reference target needs transformers")

from dflash2_folder import PAIR, SIZES, write_dflash2  # noqa: E402

from dflash_doctor.errors import UsageError  # noqa: E402
from dflash_doctor.reference.config import read_drafter_config  # noqa: E402
from dflash_doctor.reference.dflash2 import CandidateSelector, Drafter2, GroupedConv  # noqa: E402
from dflash_doctor.reference.drafting import Borrowed, drafts_at, prepare  # noqa: E402
from dflash_doctor.reference.knobs import Knobs  # noqa: E402
from dflash_doctor.reference.loading import DrafterFiles, load_drafter  # noqa: E402
from dflash_doctor.reference.profile import ProfileSum  # noqa: E402
from dflash_doctor.reference.target import layer_outputs  # noqa: E402

TOKENS = list(range(40, 100))


@pytest.fixture(scope="module")
def target() -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(PAIR / "target", dtype=torch.float32).eval()


def ready(folder: Path, target: Any, knobs: Knobs | None = None) -> Any:
    borrowed = Borrowed(
        embedding=target.get_input_embeddings().weight, head=target.get_output_embeddings().weight
    )
    return prepare(DrafterFiles(drafter=load_drafter(folder)), borrowed, knobs or Knobs())


def drafts(drafting: Any, target: Any, tokens: list[int], anchors: list[int]) -> Any:
    states, _ = layer_outputs(target, tokens, drafting.taps)
    return drafts_at(drafting, states, torch.tensor(tokens), torch.tensor(anchors))


def test_grouped_conv_when_worked_by_hand_then_mixes_a_slot_with_those_before_it_in_its_block() -> None:
    conv = GroupedConv(hidden_size=2, taps=2, group_size=1)
    with torch.no_grad():
        conv.base_kernel[1] = torch.tensor([[1.0, 2.0], [10.0, 20.0]])
    x = torch.tensor([[[1.0, 1.0], [2.0, 3.0], [5.0, 7.0], [0.0, 4.0]]])  # two blocks of two slots
    correction = torch.zeros(1, 4, 2, 2)
    correction[0, 1, 1, 0] = 0.5  # slot 1 of the first block, tap 1, first group
    out = conv(x, correction, 1, 2)
    assert out.tolist() == [[[1.0, 2.0], [2.0 + 10.5, 6.0 + 20.0], [5.0, 14.0], [50.0, 8.0 + 140.0]]]
    assert not conv(x, torch.zeros(1, 4, 2, 2), 0, 2).any()


def test_grouped_conv_when_groups_hold_several_channels_then_share_their_correction() -> None:
    conv = GroupedConv(hidden_size=4, taps=1, group_size=2)
    correction = torch.tensor([[[[2.0, 3.0]]]])
    assert conv(torch.ones(1, 1, 4), correction, 0, 1).flatten().tolist() == [2.0, 2.0, 3.0, 3.0]


def test_grouped_conv_when_it_has_more_taps_than_slots_then_reads_what_there_is() -> None:
    conv = GroupedConv(hidden_size=1, taps=5, group_size=1)
    with torch.no_grad():
        conv.base_kernel.fill_(1.0)
    out = conv(torch.tensor([[[1.0], [2.0]]]), torch.zeros(1, 2, 5, 1), 0, 2)
    assert out.flatten().tolist() == [1.0, 3.0]


def test_select_when_worked_by_hand_then_each_choice_depends_on_the_one_before() -> None:
    """Of 4 tokens, token t wants t + 1 behind it, which is worth 10; only the best two are candidates."""
    selector = CandidateSelector(hidden_size=1, vocab_size=4, rank=4, top_k=2)
    with torch.no_grad():
        selector.predecessor_codebook.copy_(10 * torch.eye(4).roll(1, dims=1))
        selector.successor_codebook.copy_(torch.eye(4))
        selector.hidden_projection.weight.fill_(1.0)
    logits = torch.tensor([[5.0, 4.0, 0.0, 0.0], [0.0, 0.0, 3.0, 4.0], [5.0, 4.0, 0.0, 0.0]])
    chosen = selector.select(logits.expand(3, 3, 4), torch.ones(3, 3, 1), torch.tensor([0, 3, 2]))
    # From 0: 1 (wanted), then 2 (wanted), then 0 (3 is no candidate). From 3: 0, then 3 (1 is none), then 0.
    assert chosen.tolist() == [[1, 2, 0], [0, 3, 0], [0, 3, 0]]
    against = selector.select(logits.expand(1, 3, 4), -torch.ones(1, 3, 1), torch.tensor([0]))
    assert against.tolist() == [[0, 3, 1]]


def test_drafts_at_when_the_additions_do_nothing_then_are_those_of_plain_dflash(
    target: Any, tmp_path: Path
) -> None:
    anchors = list(range(10, 50, 3))
    second = ready(write_dflash2(tmp_path / "draft", noise=0.0), target)
    assert isinstance(second.drafter, Drafter2)
    first = ready(PAIR / "draft", target)
    assert torch.equal(drafts(second, target, TOKENS, anchors), drafts(first, target, TOKENS, anchors))


def test_drafts_at_when_anchors_are_drafted_together_then_are_as_alone(target: Any, tmp_path: Path) -> None:
    drafting = ready(write_dflash2(tmp_path / "draft"), target)
    anchors = list(range(10, 50, 5))
    together = drafts(drafting, target, TOKENS, anchors)
    for row, anchor in zip(together, anchors, strict=True):
        assert torch.equal(row, drafts(drafting, target, TOKENS[: anchor + 1], [anchor])[0])


@pytest.mark.parametrize(
    "name",
    [
        "layers.1.attention_conv.base_kernel",
        "layers.0.mlp_conv.kernel_projection.weight",
        "candidate_selector.successor_codebook",
    ],
)
def test_drafts_at_when_an_addition_is_unset_then_drafts_change(
    name: str, target: Any, tmp_path: Path
) -> None:
    folder = write_dflash2(tmp_path / "draft")
    whole, part = (ready(folder, target, Knobs(unset_tensors=names)) for names in ((), (name,)))
    anchors = list(range(10, 50))
    assert not torch.equal(drafts(whole, target, TOKENS, anchors), drafts(part, target, TOKENS, anchors))


def test_profile_when_the_drafter_selects_then_counts_what_it_drafts(target: Any, tmp_path: Path) -> None:
    drafting = ready(write_dflash2(tmp_path / "draft"), target)
    tokens, anchors = torch.tensor(TOKENS), torch.arange(10, 50)
    states, _ = layer_outputs(target, TOKENS, drafting.taps)
    total = ProfileSum(7)
    total.add(drafting, states, tokens, anchors)
    own = torch.stack([tokens[anchors + 1 + slot] for slot in range(7)], dim=1)
    equal = (drafts_at(drafting, states, tokens, anchors) == own).sum(0)
    assert total.result().num_equal == tuple(equal.tolist())


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"selector_top_k": None}, "selector_top_k is None"),
        ({"conv_kernel_size": None}, "conv_kernel_size is None"),
        ({"conv_group_size": 48}, "conv_group_size 48, hidden_size 128"),
        ({"selector_top_k": 2000}, "selector_top_k 2000, vocab_size 1024"),
    ],
)
def test_drafter2_when_its_sizes_are_missing_or_do_not_fit_then_says_which(
    changes: dict[str, Any], seen: str, tmp_path: Path
) -> None:
    config = read_drafter_config(write_dflash2(tmp_path / "draft"))
    assert {name: getattr(config, name) for name in SIZES} == SIZES
    with pytest.raises(UsageError, match=seen):
        Drafter2(dataclasses.replace(config, **changes))
