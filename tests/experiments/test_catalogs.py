"""Every planned trial is a change that this drafter can make, under a name of its own and a known cause."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.checkpoints.pair import read_pair
from dflash_doctor.diagnosis.catalog import causes
from dflash_doctor.experiments.base import Subject, TrialPlan, number
from dflash_doctor.experiments.interventions.catalog import interventions
from dflash_doctor.experiments.reproductions.catalog import reproductions
from dflash_doctor.reference.knobs import Knobs
from dflash_doctor.reference.messages import ReferenceFacts

PAIR = bundled_fixtures() / "tiny_pair"


def subject(*, longest_text: int = 200, **facts: Any) -> Subject:
    contract = read_pair(str(PAIR / "target"), str(PAIR / "draft"))
    reading = contract.reading("vllm")
    assert reading is not None
    layers = [
        f"layers.{index}.{name}.weight" for index in (0, 1) for name in ("self_attn.k_norm", "mlp.up_proj")
    ]
    given: dict[str, Any] = {
        "device": "cpu",
        "dtype": "float32",
        "num_draft_tokens": 7,
        "block_size": 8,
        "taps": (1, 3, 4),
        "num_target_layers": 6,
        "num_layers": 2,
        "vocab_rows": 1024,
        "tensor_names": ("fc.weight", "hidden_norm.weight", *layers),
        "hidden_size": 128,
        "missing_tensors": (),
        "ignored_tensors": (),
        "zero_tensors": (),
        "has_own_head": False,
        "has_own_embedding": False,
    }
    return Subject(
        contract=contract,
        reading=reading,
        facts=ReferenceFacts(**{**given, **facts}),
        special_ids=(3, 0, 1, 2, 4, 5),
        longest_text=longest_text,
    )


def plans(which: Any, **facts: Any) -> list[TrialPlan]:
    return list(which(subject(**facts)))


@pytest.mark.parametrize("which", [interventions, reproductions])
@pytest.mark.parametrize("own", [False, True])
def test_plans_when_listed_then_each_is_a_change_of_its_own_with_a_known_cause(which: Any, own: bool) -> None:
    found = plans(which, has_own_head=own, has_own_embedding=own)
    assert len(found) > 30
    assert len({plan.name for plan in found}) == len(found)
    assert len({msgspec.json.encode(plan.knobs) for plan in found}) == len(found)
    assert all(plan.knobs != Knobs() for plan in found)
    assert {plan.cause for plan in found} <= set(causes())
    assert all(plan.change and plan.remedy for plan in found)


def test_interventions_when_a_knob_stands_as_trained_then_never_propose_it_again() -> None:
    for plan in plans(interventions):
        assert plan.knobs.taps != (1, 3, 4)
        assert plan.knobs.mask_token_id != 3
        assert plan.knobs.rope_theta != 1e4
        assert plan.knobs.partial_rotary_factor is None
        assert plan.knobs.causal is not False


def test_interventions_when_taps_are_proposed_then_lie_inside_the_target() -> None:
    taps = [plan.knobs.taps for plan in plans(interventions) if plan.knobs.taps]
    assert (2, 4, 5) in taps
    assert (0, 2, 3) in taps
    assert (3, 1, 4) in taps
    assert all(-1 <= tap < 6 for item in taps for tap in item)


def test_interventions_when_a_special_token_sounds_like_a_mask_then_it_is_tried_first() -> None:
    masks = [
        plan.knobs.mask_token_id for plan in plans(interventions) if plan.knobs.mask_token_id is not None
    ]
    assert masks[:2] == [0, 1]
    assert 1023 in masks
    assert all(0 <= item < 1024 for item in masks)


def test_interventions_when_texts_are_short_then_no_window_beyond_them_is_tried() -> None:
    windows = [plan.knobs.window for plan in interventions(subject(longest_text=60)) if plan.knobs.window]
    assert windows == [32, 16]


def test_reproductions_when_the_draft_length_ends_inside_the_texts_then_that_is_tried() -> None:
    short = subject(longest_text=3000)
    assert any(plan.cause == "draft-max-length" for plan in reproductions(short))
    assert not any(plan.cause == "draft-max-length" for plan in reproductions(subject()))


def test_edit_when_a_field_is_nested_then_names_where_it_stands() -> None:
    told = subject().edit("mask_token_id", "mask_token_id", 3)
    assert told.startswith("set dflash_config.mask_token_id = 3 in ")
    assert told.endswith("draft/config.json")


@pytest.mark.parametrize(("value", "shown"), [(1e4, "10000"), (1e6, "1e+06"), (0.5, "0.5"), (1.0, "1")])
def test_number_when_printed_then_reads_as_in_a_config(value: float, shown: str) -> None:
    assert number(value) == shown
