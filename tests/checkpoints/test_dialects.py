"""Every family is recognised as itself, by the first dialect that knows it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from dialect_pairs import HEALTHY, HealthyPair, pair_called
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.checkpoints.dialects.base import FUSED
from dflash_doctor.checkpoints.dialects.catalog import DIALECTS, dialect_called, dialect_of
from dflash_doctor.checkpoints.pair import read_pair
from dflash_doctor.checkpoints.semantics.table import SEMANTICS
from dflash_doctor.contract.pair import DraftConfig

BY_NAME = pytest.mark.parametrize("pair", HEALTHY, ids=lambda pair: pair.name)


def config_of(pair: HealthyPair, folder: Path) -> dict[str, Any]:
    pair.write_draft(folder)
    value = json.loads((folder / "config.json").read_text())
    assert isinstance(value, dict)
    return value


def test_healthy_pairs_when_counted_then_every_dialect_has_one() -> None:
    assert {pair.dialect for pair in HEALTHY} == {dialect.name for dialect in DIALECTS}


def test_catalog_when_listed_then_names_differ_and_lead_back() -> None:
    assert len({dialect.name for dialect in DIALECTS}) == len(DIALECTS)
    for dialect in DIALECTS:
        assert dialect_called(dialect.name) is dialect
        assert dialect.native in {line.reader for line in SEMANTICS}
        assert set(dialect.paths()) <= set(DraftConfig.__struct_fields__)


@BY_NAME
def test_dialect_of_when_family_wrote_the_config_then_is_that_family_and_no_earlier(
    pair: HealthyPair, tmp_path: Path
) -> None:
    if pair.dialect == "gguf":
        config: dict[str, Any] = {"general.architecture": "dflash"}
    else:
        config = config_of(pair, tmp_path)
    names = [dialect.name for dialect in DIALECTS if dialect.recognises(config)]
    assert names[0] == pair.dialect
    assert dialect_of(config).name == pair.dialect


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"architectures": ["MiniMaxDFlash2DraftModel"]}, "dflash2"),
        ({"architectures": ["DFlash2BeamDraftModel"]}, "dflash2"),
        ({"architectures": ["Qwen3DFlash2DraftModel"]}, "dflash2"),
        ({"architectures": ["DFlashDraftModel"], "dflash_config": {"selector_rank": 256}}, "dflash2"),
        *(
            ({"architectures": [f"{name}Model"]}, "dspark")
            for name in ("Qwen3DSpark", "DSparkDraft", "Gemma4DSpark", "LingDSpark", "K3DSpark")
        ),
        ({"architectures": ["MuseSparkDSparkModel"]}, "dspark"),
        ({"architectures": ["Qwen3OmniDSparkModel"]}, "dspark"),
        ({"architectures": ["DFlashDraftModel"], "model_type": "laguna"}, "laguna"),
        ({"architectures": ["DFlashDraftModel"]}, "z-lab"),
        ({"architectures": ["Eagle3LlamaForCausalLM"]}, "eagle3"),
        ({"architectures": ["x"], "eagle_config": {}}, "eagle3"),
        ({"speculators_model_type": "peagle"}, "speculators-eagle3"),
        ({"speculators_model_type": "xpress"}, "speculators-dflash"),
        ({"speculators_config": {}}, "speculators-dflash"),
        ({"architectures": ["LlamaForCausalLM"]}, "draft-model"),
        ({}, "draft-model"),
        ({"general.architecture": "dflash-draft"}, "gguf"),
    ],
)
def test_dialect_of_when_only_the_marker_is_there_then_recognises_it(
    config: dict[str, Any], name: str
) -> None:
    assert dialect_of(config).name == name


@pytest.mark.parametrize("value", [None, 3, "x", [], [3], {"a": 1}, [None]])
@pytest.mark.parametrize(
    "key",
    ["architectures", "dflash_config", "speculators_model_type", "eagle_config", "general.architecture"],
)
def test_dialect_of_when_a_marker_has_another_type_then_still_answers(key: str, value: Any) -> None:
    assert dialect_of({key: value}) in DIALECTS


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(
    config=st.dictionaries(
        st.sampled_from(
            [
                "architectures", "model_type", "dflash_config", "markov_rank", "has_embed_tokens",
                "eagle_aux_hidden_state_layer_ids", "speculators_model_type", "projector_type",
            ]
        ),
        JSON,
    )
)  # fmt: skip
def test_dialect_of_when_config_is_arbitrary_then_some_dialect_takes_it(config: dict[str, Any]) -> None:
    assert dialect_of(config) in DIALECTS


def modules_of(names: set[str]) -> set[str]:
    """Modules that tensors stand for, the layer's number replaced."""
    bare = {re.sub(r"layers\.\d+\.", "layers.{i}.", name.removeprefix("model.")) for name in names}
    return {re.sub(r"\.(weight|bias)(_scale|_scale_2)?$", "", name) for name in bare}


@BY_NAME
def test_tensors_when_drafter_is_whole_then_hold_every_module_of_the_dialect(
    pair: HealthyPair, tmp_path: Path
) -> None:
    dialect = dialect_called(pair.dialect)
    if dialect.tensors is None:
        return
    draft = read_pair(*pair.write(tmp_path)).draft
    assert draft is not None
    held = modules_of({item.name for item in draft.tensors or ()})

    def is_there(module: str) -> bool:
        stem, _, end = module.rpartition("self_attn.")
        fused = f"{stem}{FUSED[f'self_attn.{end}']}" if f"self_attn.{end}" in FUSED else module
        return any(name in (module, fused) or name.startswith(module + ".") for name in held)

    assert [module for module in dialect.tensors.required if not is_there(module)] == []
    known = (*dialect.tensors.required, *dialect.tensors.optional, *FUSED.values())
    strange = [
        name
        for name in held
        if not any(part == name or name.startswith(part) or part in name for part in known)
    ]
    assert strange == []


def test_mimo_when_written_then_brings_its_mask_embedding(tmp_path: Path) -> None:
    pair = pair_called("mimo-v2.5")
    draft = read_pair(*pair.write(tmp_path)).draft
    assert draft is not None
    assert draft.has_mask_embedding
    assert dialect_called("mimo").needs_mask_embedding
