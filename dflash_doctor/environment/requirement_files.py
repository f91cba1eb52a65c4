"""Reads how a project's files ask for packages: one `Asked` per requirement, with its place.

Every reader takes text and gives what it can: a damaged file gives less, never an exception other than
`ValueError`.
"""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

_CONDA_NAMES = {"pytorch": "torch", "pytorch-cpu": "torch", "pytorch-gpu": "torch"}
_COMMIT_URL = re.compile(r"@[0-9a-f]{7,40}(?:[#&?].*)?$")
_OPTION = re.compile(r"^(?:-r|--requirement|-c|--constraint)(?:\s*=\s*|\s+|(?<=-[rc]))(.+)$")


@dataclass(frozen=True)
class Asked:
    """One requirement, where it stands, and whether it admits one version only."""

    package: str
    """Normalised name."""
    line: int | None
    text: str
    is_pinned: bool
    is_metadata: bool = False
    """In a package's own metadata, which is meant to give ranges."""


@dataclass(frozen=True)
class Include:
    """Another file that a requirements file names."""

    name: str
    is_constraint: bool


def read_requirements(text: str) -> Iterator[Asked | Include]:
    """pip's requirements format: continued lines, comments, options, includes."""
    for number, line in _joined(text):
        if not line:
            continue
        if line.startswith("-"):
            include = _OPTION.match(line)
            if include is not None:
                yield Include(include[1].strip().strip("\"'"), line.startswith(("-c", "--constraint")))
            continue
        found = parse_requirement(re.split(r"\s--?\w", line, maxsplit=1)[0], number)
        if found is not None:
            yield found


def read_pyproject(text: str) -> Iterator[Asked]:
    """`[project]` dependencies and extras, dependency groups, and Poetry's own tables."""
    document = _toml(text)
    lines = text.splitlines()
    project = _table(document, "project")
    listed: list[tuple[Any, bool]] = [(item, True) for item in _list(project.get("dependencies"))]
    for group in _table(project, "optional-dependencies").values():
        listed += [(item, True) for item in _list(group)]
    for group in _table(document, "dependency-groups").values():
        listed += [(item, False) for item in _list(group)]
    for requirement, is_metadata in listed:
        if isinstance(requirement, str):
            found = parse_requirement(requirement, _line_of(lines, requirement), is_metadata=is_metadata)
            if found is not None:
                yield found
    poetry = _table(_table(document, "tool"), "poetry")
    tables = [_table(poetry, "dependencies"), _table(poetry, "dev-dependencies")]
    tables += [_table(_as_table(group), "dependencies") for group in _table(poetry, "group").values()]
    for table in tables:
        for name, value in table.items():
            yield _poetry(name, value, lines)


def read_setup_cfg(text: str) -> Iterator[Asked]:
    """`install_requires` and `extras_require` of setup.cfg."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error).splitlines()[0]) from error
    blocks = []
    if parser.has_option("options", "install_requires"):
        blocks.append(parser.get("options", "install_requires"))
    if parser.has_section("options.extras_require"):
        blocks += [value for _, value in parser.items("options.extras_require")]
    lines = text.splitlines()
    for block in blocks:
        for item in block.splitlines():
            found = parse_requirement(item.strip(), _line_of(lines, item.strip()), is_metadata=True)
            if found is not None:
                yield found


def read_conda(text: str) -> Iterator[Asked]:
    """List items of an environment.yml, those under `pip:` included; read line by line, not as YAML."""
    for number, line in enumerate(text.splitlines(), start=1):
        match = re.match(r"^\s*-\s+['\"]?([A-Za-z0-9_.:-][^'\"#]*)", line)
        if match is None:
            continue
        item = match[1].strip().rpartition("::")[2]
        conda = re.fullmatch(r"([A-Za-z0-9_.-]+)\s*=\s*([\w.*+!]+)(?:=\S+)?", item)
        if conda is not None:
            name = canonicalize_name(conda[1])
            exact = "*" not in conda[2] and conda[2].count(".") >= 2
            yield Asked(_CONDA_NAMES.get(name, name), number, item, exact)
            continue
        found = parse_requirement(item, number)
        if found is not None:
            yield Asked(_CONDA_NAMES.get(found.package, found.package), number, item, found.is_pinned)


def read_lock(name: str, text: str) -> Iterator[str]:
    """Names of the packages that a lock file (uv, Poetry, PDM, pylock, Pipenv) holds."""
    if name == "Pipfile.lock":
        try:
            document = json.loads(text)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        for part in ("default", "develop"):
            yield from (canonicalize_name(key) for key in _table(_as_table(document), part))
        return
    document = _toml(text)
    for item in [*_list(document.get("package")), *_list(document.get("packages"))]:
        package = _as_table(item).get("name")
        if isinstance(package, str):
            yield canonicalize_name(package)


def parse_requirement(text: str, line: int | None, *, is_metadata: bool = False) -> Asked | None:
    """One requirement; `None` where the text is none (a path, a URL without a name, garbage)."""
    try:
        need = Requirement(text.strip())
    except (InvalidRequirement, RecursionError):
        return None
    return Asked(canonicalize_name(need.name), line, text.strip(), _is_pinned(need), is_metadata)


def _is_pinned(need: Requirement) -> bool:
    if need.url is not None:
        if need.url.startswith("git+"):
            return _COMMIT_URL.search(need.url) is not None
        return need.url.split("#")[0].endswith((".whl", ".tar.gz", ".zip"))
    return any(
        item.operator == "===" or (item.operator == "==" and not item.version.endswith(".*"))
        for item in need.specifier
    )


def _poetry(name: str, value: Any, lines: list[str]) -> Asked:
    """Poetry reads a bare version as exact; `^`, `~`, `*` and comparisons are ranges."""
    table = _as_table(value)
    version = value if isinstance(value, str) else table.get("version")
    exact = isinstance(version, str) and re.fullmatch(r"={0,3}\s*\d[\w.!+-]*", version.strip()) is not None
    exact = exact or isinstance(table.get("rev"), str) or isinstance(table.get("url"), str)
    line = next(
        (
            number
            for number, text in enumerate(lines, 1)
            if re.match(rf"\s*\"?{re.escape(name)}\"?\s*=", text)
        ),
        None,
    )
    text = f'{name} = "{version}"' if isinstance(version, str) else name
    return Asked(canonicalize_name(name), line, text, exact)


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines without comments, each with the number of its first physical line."""
    held, start = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = re.sub(r"(^|\s)#.*$", "", raw)
        start = start or number
        if line.rstrip().endswith("\\"):
            held += line.rstrip()[:-1] + " "
            continue
        yield start, (held + line).strip()
        held, start = "", 0
    if held:
        yield start, held.strip()


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"not TOML: {error}") from error


def _line_of(lines: list[str], text: str) -> int | None:
    return next((number for number, line in enumerate(lines, start=1) if text and text in line), None)


def _as_table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _table(value: dict[str, Any], key: str) -> dict[str, Any]:
    return _as_table(value.get(key))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
