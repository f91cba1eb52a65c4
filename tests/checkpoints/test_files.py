"""Files are opened only where they are plain, small enough and inside the checkpoint's folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dflash_doctor.checkpoints.files import (
    UnfitFileError,
    can_be_opened,
    exists,
    names_in,
    open_plain,
    read_bytes,
    read_text,
    shown,
)


def test_read_text_when_file_has_a_byte_order_mark_then_leaves_it_out(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf{}")
    assert read_text(path, max_bytes=10) == "{}"


def test_read_text_when_file_is_not_utf8_then_names_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"abc\xff")
    with pytest.raises(UnfitFileError, match=r"it is not UTF-8 \(byte 3\)"):
        read_text(path, max_bytes=10)


def test_read_bytes_when_file_is_huge_then_does_not_read_it(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.touch()
    os.truncate(path, 1 << 30)
    with pytest.raises(UnfitFileError, match="it has 1,073,741,824 bytes; at most 1,000 are read"):
        read_bytes(path, max_bytes=1000)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.mkdir(), "not a regular file"),
        (lambda path: os.mkfifo(path), "not a regular file"),
        (lambda path: path.symlink_to("nowhere"), "a link that leads nowhere"),
        (lambda path: path.symlink_to(path), "a link that leads nowhere"),
        (lambda path: path.symlink_to("/dev/zero"), "a link out of the folder, to /dev/zero"),
        (lambda path: path.symlink_to("/etc/hostname"), "a link out of the folder"),
    ],
    ids=["missing", "folder", "pipe", "dangling", "loop", "device", "outside"],
)
def test_open_plain_when_it_is_no_plain_file_of_the_folder_then_says_why(
    tmp_path: Path, make: object, reason: str
) -> None:
    path = tmp_path / "config.json"
    make(path)  # type: ignore[operator]
    with pytest.raises(UnfitFileError, match=reason):
        open_plain(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_open_plain_when_permission_is_missing_then_says_so(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")
    path.chmod(0)
    with pytest.raises(UnfitFileError, match="Permission denied"):
        open_plain(path)


def test_open_plain_when_link_stays_in_the_folder_then_opens_it(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "config.json").symlink_to("real.json")
    file = open_plain(tmp_path / "config.json")
    with file.stream:
        assert (file.size, file.stream.read()) == (2, b"{}")


def test_open_plain_when_hub_snapshot_links_to_its_blobs_then_opens_it(tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "snapshots" / "abc", tmp_path / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "1").write_text("{}")
    (snapshot / "config.json").symlink_to("../../blobs/1")
    assert read_text(snapshot / "config.json", max_bytes=9) == "{}"


def test_open_plain_when_other_folder_has_blobs_beside_it_then_refuses_the_link(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "1").write_text("{}")
    (tmp_path / "model" / "config.json").symlink_to("../blobs/1")
    with pytest.raises(UnfitFileError, match="a link out of the folder"):
        open_plain(tmp_path / "model" / "config.json")


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
def test_paths_when_no_file_can_be_called_so_then_count_as_absent(tmp_path: Path, name: str) -> None:
    assert not exists(tmp_path / name)
    assert not can_be_opened(tmp_path / name)
    with pytest.raises(UnfitFileError):
        open_plain(tmp_path / name)


def test_names_in_when_folder_is_there_then_lists_it_sorted(tmp_path: Path) -> None:
    for name in "cab":
        (tmp_path / name).touch()
    assert names_in(tmp_path) == ["a", "b", "c"]
    assert names_in(tmp_path / "a") == []
    assert names_in(tmp_path / "missing") == []


def test_names_in_when_folder_cannot_be_listed_then_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(UnfitFileError, match="Permission denied"):
        names_in(tmp_path)


def test_shown_when_text_is_long_or_half_a_character_then_can_be_stored() -> None:
    assert shown("x" * 300) == "x" * 200 + "..."
    assert shown("\ud800a").encode() == b"?a"
