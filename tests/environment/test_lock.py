"""A lock is written whole and read back; each difference is weighed, and garbage is refused in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.contract.environment import LockDifference
from dflash_doctor.environment.lock import FORMAT, compare, read_lock, write_lock
from dflash_doctor.environment.snapshot import environment_snapshot
from dflash_doctor.errors import UsageError

SNAPSHOT: dict[str, Any] = {
    "python": "3.11.7",
    "os": "Linux 6.1",
    "machine": "x86_64",
    "cpu": "EPYC",
    "num_cpus": 8,
    "memory_gib": 64.0,
    "gpus": ["NVIDIA H200"],
    "gpu_driver": "580.10",
    "compute_capabilities": ["9.0"],
    "torch_build": {"cuda": "13.0", "hip": None, "git_version": "abc"},
    "packages": {
        "vllm": "0.32.0", "torch": "2.13.0+cu130", "transformers": "5.19.0", "flash-attn": "3.0.1",
        "numpy": "2.3.5", "pytest": "9.2.0", "dflash-doctor": "0.1.0",
    },
    "commits": {"vllm": "aaaa"},
    "development_builds": {},
    "engines": {
        "vllm": {"methods": ["dflash", "mtp"], "draft_architectures": ["DFlashDraft"], "asked": "by import"}
    },
    "variables": {"VLLM_USE_V2_MODEL_RUNNER": "1", "VLLM_LOGGING_LEVEL": "INFO"},
}  # fmt: skip


def changed(path: str, value: Any) -> dict[str, Any]:
    """The snapshot with one key changed; `None` removes it."""
    snapshot: dict[str, Any] = json.loads(json.dumps(SNAPSHOT))
    *inner, last = path.split("/")
    place = snapshot
    for key in inner:
        place = place[key]
    if value is None:
        place.pop(last)
    else:
        place[last] = value
    return snapshot


CASES = [
    ("packages/vllm", "0.33.0", "breaking"),
    ("packages/vllm", "0.32.1", "risky"),
    ("packages/vllm", None, "breaking"),
    ("packages/sglang", "0.5.23", "risky"),
    ("packages/torch", "2.14.0+cu130", "breaking"),
    ("packages/torch", "3.13.0+cu130", "breaking"),
    ("packages/torch", "2.13.0+cpu", "breaking"),
    ("packages/torch", "2.13.1+cu130", "risky"),
    ("packages/transformers", "5.20.0", "risky"),
    ("packages/flash-attn", None, "risky"),
    ("packages/flash-attn", "3.0.2", "risky"),
    ("packages/dflash-doctor", "0.2.0", "risky"),
    ("packages/dflash-doctor", "0.1.1", "harmless"),
    ("packages/numpy", "2.3.6", "harmless"),
    ("packages/pytest", "10.0.0", "harmless"),
    ("torch_build/cuda", "12.8", "breaking"),
    ("torch_build/cuda", "13.1", "risky"),
    ("torch_build/git_version", "def", "risky"),
    ("commits/vllm", "bbbb", "risky"),
    ("development_builds/vllm", "a development version", "risky"),
    ("gpus", ["NVIDIA B200"], "breaking"),
    ("gpus", ["NVIDIA H200", "NVIDIA H200"], "breaking"),
    ("compute_capabilities", ["10.0"], "breaking"),
    ("gpu_driver", "581.0", "risky"),
    ("python", "3.12.1", "risky"),
    ("python", "3.11.9", "harmless"),
    ("os", "Linux 6.9", "harmless"),
    ("os", "Darwin 25", "breaking"),
    ("machine", "aarch64", "breaking"),
    ("cpu", "Xeon", "harmless"),
    ("num_cpus", 2, "harmless"),
    ("memory_gib", 32.0, "harmless"),
    ("something_new", "x", "harmless"),
    ("engines/vllm/methods", ["mtp"], "breaking"),
    ("engines/vllm/methods", ["dflash", "mtp", "new"], "harmless"),
    ("engines/vllm/error", "it crashed", "risky"),
    ("variables/VLLM_USE_V2_MODEL_RUNNER", "0", "risky"),
    ("variables/VLLM_USE_V2_MODEL_RUNNER", None, "risky"),
    ("variables/VLLM_ATTENTION_BACKEND", "FLASHINFER", "risky"),
    ("variables/SGLANG_SIMULATE_ACC_LEN", "4", "breaking"),
    ("variables/VLLM_LOGGING_LEVEL", "DEBUG", "harmless"),
    ("variables/OTHER", "x", "harmless"),
]


@pytest.mark.parametrize(("path", "value", "weight"), CASES, ids=[f"{c[0]}={c[1]}" for c in CASES])
def test_compare_when_one_thing_changed_then_it_alone_is_told_with_its_weight(
    path: str, value: Any, weight: str
) -> None:
    differences = compare(SNAPSHOT, changed(path, value))
    assert [(item.what, item.weight) for item in differences] == [(path.replace("/", " "), weight)]
    assert differences[0].reason
    back = compare(changed(path, value), SNAPSHOT)
    assert [item.what for item in back] == [path.replace("/", " ")]


@pytest.mark.parametrize(
    "path", ["engines/vllm/asked", "compute_capabilities", "commits/vllm", "engines/vllm"]
)
def test_compare_when_a_difference_is_only_how_one_looked_then_is_silent(path: str) -> None:
    found = changed(path, [] if path == "compute_capabilities" else None)
    if path == "commits/vllm":
        found["packages"]["vllm"] = "0.33.0"
    assert [item.what for item in compare(SNAPSHOT, found)] == (
        ["packages vllm"] if path == "commits/vllm" else []
    )


def test_compare_when_the_cpu_is_what_the_engine_runs_on_then_another_one_is_risky() -> None:
    locked, found = changed("gpus", []), changed("gpus", [])
    found["cpu"] = "Xeon"
    assert [item.weight for item in compare(locked, found)] == ["risky"]


def test_compare_when_a_whole_part_is_gone_then_each_entry_is_weighed() -> None:
    found = changed("packages", None)
    assert {item.what for item in compare(SNAPSHOT, found)} >= {"packages vllm", "packages torch"}
    assert compare(SNAPSHOT, found)[0].weight == "breaking", "heaviest first"


def test_compare_when_nothing_changed_then_deepdiff_is_not_even_imported() -> None:
    import subprocess
    import sys

    script = (
        "import sys; from dflash_doctor.environment.lock import compare\n"
        "assert compare({'a': (1, 2)}, {'a': [1, 2]}) == ()\nprint('deepdiff' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_difference_when_two_lists_differ_then_only_what_differs_is_shown() -> None:
    item = LockDifference(what="x", locked=["a", "b"], found=["b", "c"], weight="risky", reason="r")
    assert item.in_words() == ("a", "c")
    item = LockDifference(what="x", locked=None, found="y" * 500, weight="risky", reason="r")
    assert item.in_words()[0] == "none"
    assert len(item.in_words()[1]) == 120


def test_lock_when_written_and_read_then_is_the_same_and_readable(tmp_path: Path) -> None:
    path = tmp_path / "below" / "lock.json"
    snapshot = environment_snapshot({}, with_registries=True, cache=tmp_path)
    write_lock(path, snapshot)
    assert compare(read_lock(path), environment_snapshot({}, with_registries=True, cache=tmp_path)) == ()
    assert '\n    "python": "' in path.read_text()
    assert [item.name for item in path.parent.iterdir()] == ["lock.json"]


def test_lock_when_the_place_cannot_be_written_then_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="cannot be written"):
        write_lock(tmp_path / "file" / "lock.json", SNAPSHOT)


def deep(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "{}", '{"format": "x"}', "\xff", "[" * 100_000,
        json.dumps({"format": FORMAT, "version": 2, "environment": {}}),
        json.dumps({"format": FORMAT, "version": 1}),
        json.dumps({"format": FORMAT, "version": 1, "environment": [1]}),
        json.dumps({"format": FORMAT, "version": 1, "environment": changed("packages", None)}),
        json.dumps({"format": FORMAT, "version": 1, "environment": changed("packages", ["vllm"])}),
        json.dumps({"format": FORMAT, "version": 1, "environment": changed("variables", {"VLLM_X": 1})}),
        f'{{"format": "{FORMAT}", "version": 1, "environment": {deep(40)}}}',
    ],
)  # fmt: skip
def test_read_lock_when_the_file_is_none_then_refuses_in_three_parts(text: str, tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError) as raised:
        read_lock(path)
    assert raised.value.seen.startswith(str(path))
    assert "env --lock" in raised.value.remedy


def test_read_lock_when_missing_a_folder_or_huge_then_refuses(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(10 * 2**30)
    for path in (tmp_path / "none", tmp_path, huge):
        with pytest.raises(UsageError, match="cannot be read"):
            read_lock(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
PARTS = st.dictionaries(st.sampled_from([*SNAPSHOT, "other"]), JSON, max_size=8)


@given(PARTS, PARTS)
def test_compare_when_documents_are_any_json_then_tells_a_difference_exactly_when_there_is_one(
    locked: dict[str, Any], found: dict[str, Any]
) -> None:
    differences = compare(locked, found)
    assert compare(locked, locked) == ()
    if differences:
        assert locked != found
    assert {item.weight for item in differences} <= {"breaking", "risky", "harmless"}


@given(st.binary(max_size=200))
def test_read_lock_when_bytes_are_garbage_then_refuses(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lock.json"
        path.write_bytes(content)
        with pytest.raises(UsageError):
            read_lock(path)
