"""Hub ids are looked up among the snapshots on this machine, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dflash_doctor.checkpoints.hub_cache import cached_snapshot, is_commit

COMMIT, OTHER = "a" * 40, "b" * 40


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with one model at two commits."""
    home = tmp_path / "hub" / "models--z-lab--Qwen3-8B-DFlash-b16"
    for commit in (COMMIT, OTHER):
        (home / "snapshots" / commit).mkdir(parents=True)
    (home / "refs" / "pr").mkdir(parents=True)
    (home / "refs" / "main").write_text(COMMIT + "\n")
    (home / "refs" / "pr" / "1").write_text(OTHER)
    return home


def find(cache: Path, revision: str | None = None, name: str = "z-lab/Qwen3-8B-DFlash-b16") -> Path | None:
    return cached_snapshot(name, revision, {"HF_HUB_CACHE": str(cache.parent)})


def test_cached_snapshot_when_revision_is_a_name_then_follows_it(cache: Path) -> None:
    assert find(cache) == cache / "snapshots" / COMMIT
    assert find(cache, "main") == cache / "snapshots" / COMMIT
    assert find(cache, "pr/1") == cache / "snapshots" / OTHER
    assert find(cache, OTHER) == cache / "snapshots" / OTHER


@pytest.mark.parametrize("revision", ["missing", "c" * 40, "../main", "pr", "a\0b", "x" * 5000])
def test_cached_snapshot_when_revision_is_not_here_then_gives_none(cache: Path, revision: str) -> None:
    assert find(cache, revision) is None


@pytest.mark.parametrize(
    "name", ["z-lab/other", "gpt2", "a/b/c", "../x/y", "z-lab/", "/etc/passwd", "", "a\0/b", "a/" + "x" * 999]
)
def test_cached_snapshot_when_name_is_no_cached_id_then_gives_none(cache: Path, name: str) -> None:
    assert find(cache, name=name) is None


def test_cached_snapshot_when_reference_is_a_pipe_then_does_not_wait(cache: Path) -> None:
    os.mkfifo(cache / "refs" / "stuck")
    assert find(cache, "stuck") is None
    assert find(cache, str(cache / "refs" / "stuck")) is None


@pytest.mark.parametrize("content", ["", "main", "a" * 39, "a" * 2000, "../../x"])
def test_cached_snapshot_when_reference_holds_no_commit_then_gives_none(cache: Path, content: str) -> None:
    (cache / "refs" / "main").write_text(content)
    assert find(cache) is None


def test_cached_snapshot_when_cache_is_named_by_variables_then_the_nearest_counts(cache: Path) -> None:
    name, hub = "z-lab/Qwen3-8B-DFlash-b16", str(cache.parent)
    home = str(cache.parent.parent)
    assert cached_snapshot(name, None, {"HF_HUB_CACHE": "/none", "HF_HOME": home}) is None
    assert cached_snapshot(name, None, {"HF_HOME": home}) == cache / "snapshots" / COMMIT
    assert cached_snapshot(name, None, {"HF_HUB_CACHE": hub, "HF_HOME": "/none"}) is not None
    assert cached_snapshot(name, None, {"XDG_CACHE_HOME": "/none"}) is None


@pytest.mark.parametrize(
    ("revision", "commit"), [(COMMIT, True), ("main", False), (None, False), ("A" * 40, False)]
)
def test_is_commit_when_revision_is_given_then_tells_names_from_commits(
    revision: str | None, commit: bool
) -> None:
    assert is_commit(revision) is commit
