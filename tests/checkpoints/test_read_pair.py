"""A pair is read whole, whatever lies in its folders: what cannot be read is said, and nothing raises."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from checkpoint_files import INDEX_NAME, gguf_bytes, safetensors_header, write_checkpoint, write_json
from dialect_pairs import GGUF_PAIR, HEALTHY, HealthyPair, pair_called
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflash_doctor.checkpoints.pair import locate_checkpoint, read_pair
from dflash_doctor.contract.pair import PairContract, Problem

CONFIG = {"architectures": ["DFlashDraftModel"], "hidden_size": 8, "num_hidden_layers": 1}
TENSORS = {"fc.weight": ("BF16", [8, 8]), "norm.weight": ("BF16", [8])}


def write(folder: Path) -> Path:
    return write_checkpoint(folder, CONFIG, TENSORS)


def read(folder: Path) -> PairContract:
    """The folder as both target and drafter; what comes out can be stored."""
    contract = read_pair(str(folder), str(folder))
    stored = msgspec.json.encode(contract)
    assert msgspec.json.decode(stored, type=PairContract) == contract
    return contract


def problems_of(contract: PairContract) -> tuple[Problem, ...]:
    assert contract.draft is not None
    return contract.draft.problems


@pytest.mark.parametrize("pair", HEALTHY, ids=lambda pair: pair.name)
def test_read_pair_when_pair_is_healthy_then_reads_all_of_it_without_a_problem(
    pair: HealthyPair, tmp_path: Path
) -> None:
    contract = read_pair(*pair.write(tmp_path))
    draft, target = contract.draft, contract.target
    assert draft is not None
    assert contract.draft_config is not None
    assert contract.target_config is not None
    assert (*target.problems, *draft.problems) == ()
    assert contract.draft_config.dialect == pair.dialect
    assert contract.draft_config.trained_taps == pair.taps
    assert contract.target_config.num_layers is not None
    assert contract.target_config.hidden_size is not None
    assert draft.num_tensors == len(draft.tensors or ()) > 0
    assert draft.sha256 is not None
    assert target.sha256 not in (None, draft.sha256)
    assert msgspec.json.decode(msgspec.json.encode(contract), type=PairContract) == contract
    head = target.tensor("lm_head.weight") or target.tensor("output.weight")
    assert (head is None) == bool(contract.target_config.tie_word_embeddings)


def test_read_pair_when_vocabulary_is_reduced_then_sums_up_its_tables(tmp_path: Path) -> None:
    contract = read_pair(*pair_called("speculators-qwen3-8b").write(tmp_path))
    d2t, t2d = contract.vocab_maps
    assert (d2t.length, d2t.num_distinct, d2t.highest_target) == (32000, 32000, 127996)
    assert (t2d.length, t2d.num_true, t2d.agrees_with_other) == (151936, 32000, True)


def test_read_pair_when_files_are_gguf_then_their_metadata_is_the_config(tmp_path: Path) -> None:
    target, draft = GGUF_PAIR.write(tmp_path)
    contract = read_pair(target, draft)
    assert contract.target_config is not None
    assert contract.target_config.hidden_size == 4096
    assert contract.draft is not None
    assert contract.draft.config_file == draft
    assert contract.draft.weight_format == "gguf"
    by_folder = read_pair(str(Path(target).parent), str(Path(draft).parent))
    assert by_folder.draft_config == contract.draft_config


def test_read_pair_when_there_is_no_drafter_then_reads_the_target(tmp_path: Path) -> None:
    contract = read_pair(str(write(tmp_path)), None)
    assert (contract.draft, contract.trained, contract.readings) == (None, None, ())
    assert contract.target_config is not None


def test_read_pair_when_weights_are_400_gigabytes_then_reads_headers_only(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, CONFIG, {f"w{index}": ("BF16", [10**5, 10**5]) for index in range(20)})
    contract = read(tmp_path)
    assert contract.target.num_bytes > 400e9
    assert problems_of(contract) == ()


def test_sha256_when_config_or_header_differs_then_differs(tmp_path: Path) -> None:
    first = write(tmp_path / "a")
    same = write(tmp_path / "b")
    other = write_checkpoint(tmp_path / "c", CONFIG | {"hidden_size": 9}, TENSORS)
    wider = write_checkpoint(tmp_path / "d", CONFIG, TENSORS | {"x": ("F32", [1])})
    hashes = [read(folder).target.sha256 for folder in (first, same, other, wider)]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


@pytest.mark.parametrize(
    ("name", "severity", "is_hub_id"),
    [
        ("z-lab/nowhere-to-be-found", "info", True),
        ("/no/such/folder", "error", False),
        ("./missing", "error", False),
        ("", "error", False),
        ("a\0b", "error", False),
        ("x" * 5000, "error", False),
        ("x/" + "y" * 5000, "info", True),
    ],
)
def test_read_pair_when_a_name_leads_nowhere_then_says_so(name: str, severity: str, is_hub_id: bool) -> None:
    contract = read_pair(name, name)
    for checkpoint in (contract.target, contract.draft):
        assert checkpoint is not None
        (problem,) = checkpoint.problems
        assert problem.severity == severity
        assert checkpoint.is_hub_id is is_hub_id
        assert checkpoint.folder is None
    assert contract.draft_config is None
    assert locate_checkpoint(name) is None


def test_read_pair_when_hub_id_is_cached_then_reads_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "a" * 40
    home = tmp_path / "models--z-lab--D"
    write(home / "snapshots" / commit)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(commit)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    contract = read_pair("z-lab/D", "z-lab/D", engine_args={"speculative_config.revision": "main"})
    assert contract.draft is not None
    assert (contract.draft.revision, contract.draft.requested_revision) == (commit, "main")
    assert (contract.draft.is_hub_id, contract.draft.problems) == (True, ())
    missing = read_pair("z-lab/D", None, engine_args={"revision": "b" * 40}).target
    assert (missing.folder, missing.problems[0].severity) == (None, "info")


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def garbage(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00garbage")


def huge(path: Path) -> None:
    path.write_bytes(b"")
    os.truncate(path, 1 << 30)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def outside(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


DAMAGES = [remove, empty, cut, garbage, huge, pipe, folder_instead, dangling, loop, outside]


SIDE_FILES = ("generation_config.json", "tokenizer_config.json", "special_tokens_map.json")


@pytest.mark.parametrize("name", SIDE_FILES)
@pytest.mark.parametrize("damage", DAMAGES[1:], ids=lambda item: item.__name__)
def test_read_pair_when_a_side_file_is_damaged_then_says_so(damage: Any, name: str, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / name).write_text("{}")
    assert problems_of(read(tmp_path)) == ()
    damage(tmp_path / name)
    contract = read(tmp_path)
    for problem, severity in ((contract.target.problems, "error"), (problems_of(contract), "warning")):
        assert [(item.what, item.severity) for item in problem] == [(f"{name} cannot be read", severity)]


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_read_pair_when_a_file_is_a_link_out_then_the_remedy_is_the_folder_it_leads_to(
    name: str, tmp_path: Path
) -> None:
    write(tmp_path / "real")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / name).symlink_to(tmp_path / "real" / name)
    problems = problems_of(read(tmp_path / "links"))
    assert f"name the folder that it leads to: {tmp_path / 'real'}" in [item.remedy for item in problems]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda item: item.__name__)
def test_read_pair_when_the_config_is_damaged_then_says_so_and_reads_the_weights(
    damage: Any, tmp_path: Path
) -> None:
    write(tmp_path)
    damage(tmp_path / "config.json")
    contract = read(tmp_path)
    (problem,) = problems_of(contract)
    assert (problem.severity, problem.what) == ("error", "config.json cannot be read")
    assert problem.file == str(tmp_path / "config.json")
    assert contract.draft_config is None
    assert contract.draft is not None
    assert contract.draft.num_tensors == 2


@pytest.mark.parametrize("damage", DAMAGES[1:], ids=lambda item: item.__name__)
def test_read_pair_when_the_weights_are_damaged_then_says_so_and_reads_the_config(
    damage: Any, tmp_path: Path
) -> None:
    write(tmp_path)
    damage(tmp_path / "model.safetensors")
    contract = read(tmp_path)
    (problem,) = problems_of(contract)
    assert (problem.severity, problem.what) == (
        "error",
        "the weight file model.safetensors cannot be read",
    )
    assert contract.draft_config is not None
    assert contract.draft_config.hidden_size == 8
    assert contract.draft is not None
    assert contract.draft.tensors is None


def test_read_pair_when_folder_is_empty_then_misses_the_config(tmp_path: Path) -> None:
    contract = read(tmp_path)
    assert [item.seen for item in problems_of(contract)] == ["No such file or directory"]
    assert contract.draft is not None
    assert (contract.draft.weight_format, contract.draft.tensors) == (None, None)


def test_read_pair_when_a_folder_has_a_config_and_no_weights_then_no_engine_can_start(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", CONFIG)
    (problem,) = read(tmp_path).draft.problems
    assert (problem.severity, problem.what) == ("error", "the draft folder has no weight file")
    made_up = read_pair(str(tmp_path), str(tmp_path), engine_args={"load_format": "dummy"})
    assert made_up.draft is not None
    assert made_up.draft.problems == (), "the engine was told to make them up"


def test_read_pair_when_a_file_is_given_for_the_folder_then_says_so(tmp_path: Path) -> None:
    write(tmp_path)
    contract = read_pair(str(tmp_path / "config.json"), None)
    assert [item.seen for item in contract.target.problems] == ["Not a directory"]


def test_read_pair_when_gguf_file_is_broken_then_that_is_the_only_problem(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF\x03")
    contract = read(path)
    assert [item.what for item in problems_of(contract)] == ["the weight file m.gguf cannot be read"]
    assert contract.draft_config is None


def test_read_pair_when_a_folder_is_called_gguf_then_is_read_as_a_folder(tmp_path: Path) -> None:
    folder = write(tmp_path / "model.gguf")
    assert problems_of(read(folder)) == ()


def test_read_pair_when_folder_cannot_be_listed_then_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path) -> object:
        raise PermissionError(13, "Permission denied")

    write(tmp_path)
    monkeypatch.setattr(Path, "iterdir", refuse)
    contract = read(tmp_path)
    assert [item.seen for item in problems_of(contract)] == ["Permission denied"]
    assert contract.draft_config is not None


def test_read_pair_when_a_file_name_is_not_utf8_then_still_answers(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / os.fsdecode(b"\xff.safetensors"))
    assert read(tmp_path).target.sha256 is not None
    (tmp_path / os.fsdecode(b"\xfe.safetensors")).touch()
    assert [item.what for item in problems_of(read(tmp_path))] == [
        "the weight file ?.safetensors cannot be read"
    ]


def test_read_pair_when_layers_are_counted_in_billions_then_says_so_without_making_them(
    tmp_path: Path,
) -> None:
    text = {"num_hidden_layers": 10**9, "num_target_layers": 10**9, "dflash_config": {"block_size": 10**18}}
    write_json(tmp_path / "config.json", CONFIG | text)
    contract = read(tmp_path)
    assert [item.field for item in problems_of(contract) if item.field] == [
        "num_target_layers",
        "num_hidden_layers",
    ]
    assert contract.draft_config is not None
    assert contract.draft_config.block_size == 10**18


def test_read_pair_when_texts_hold_half_characters_then_can_be_stored(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        r'{"model_type": "\ud800", "\udc00": 1, "architectures": ["\ud800"],'
        r' "quantization_config": {"quant_method": "\ud800", "ignore": ["\udfff"]}}'
    )
    (tmp_path / INDEX_NAME).write_text(r'{"weight_map": {"\ud800": "\ud800"}}')
    contract = read(tmp_path)
    assert contract.draft_config is not None
    assert contract.draft_config.model_type == "?"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS = (
    "architectures", "model_type", "dflash_config", "speculators_model_type", "transformer_layer_config",
    "speculators_config", "aux_hidden_state_layer_ids", "num_hidden_layers", "block_size", "mask_token_id",
    "target_layer_ids", "layer_types", "sliding_window", "rope_parameters", "rope_scaling", "rope_theta",
    "quantization_config", "text_config", "markov_rank", "eagle_config", "is_causal", "num_target_layers",
)  # fmt: skip
FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(config=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=8))
def test_read_pair_when_config_values_are_arbitrary_then_never_raises(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    read(tmp_path)


@FUZZ
@given(data=st.data())
def test_read_pair_when_values_of_a_sound_config_are_replaced_then_never_raises(
    tmp_path: Path, data: st.DataObject
) -> None:
    pair = data.draw(st.sampled_from([item for item in HEALTHY if item.dialect != "gguf"]))
    pair.write_draft(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    place = config
    for _ in range(data.draw(st.integers(0, 2))):
        inner = [value for value in place.values() if isinstance(value, dict) and value]
        place = data.draw(st.sampled_from(inner)) if inner else place
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(JSON)
    (tmp_path / "config.json").write_text(json.dumps(config))
    read(tmp_path)


@FUZZ
@given(config=st.binary(max_size=100), weights=st.binary(max_size=100), index=st.binary(max_size=100))
def test_read_pair_when_every_file_is_arbitrary_bytes_then_never_raises(
    tmp_path: Path, config: bytes, weights: bytes, index: bytes
) -> None:
    (tmp_path / "config.json").write_bytes(config)
    (tmp_path / "model.safetensors").write_bytes(weights)
    (tmp_path / INDEX_NAME).write_bytes(index)
    read(tmp_path)


@FUZZ
@given(place=st.integers(0, 250), change=st.binary(min_size=1, max_size=8), gguf=st.booleans())
def test_read_pair_when_sound_weights_are_altered_then_never_raises(
    tmp_path: Path, place: int, change: bytes, gguf: bool
) -> None:
    if gguf:
        metadata = {"general.architecture": "dflash", "dflash.block_size": 16}
        header, size = gguf_bytes(metadata, {"w": ("F32", [4])})
    else:
        header, _, data_size = safetensors_header({"d2t": ("I64", [4]), "t2d": ("BOOL", [8])})
        size = len(header) + data_size
    whole = bytearray(header + bytes(size - len(header)))
    whole[place : place + len(change)] = change
    path = tmp_path / ("m.gguf" if gguf else "model.safetensors")
    path.write_bytes(whole)
    read(path if gguf else tmp_path)
