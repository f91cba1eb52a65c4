"""The layers hold: who may import whom, and what is imported only where it is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "dflash_doctor"

BASE = {
    "errors",
    "contract",
    "trials",
    "evidence",
    "records",
    "runs",
    "settings",
    "bundled",
    "checkpoints",
    "environment",
}
MAY_IMPORT = {
    "errors": set(),
    "contract": set(),
    "trials": set(),
    "evidence": {"contract", "trials"},
    "records": {"contract", "trials", "evidence"},
    "runs": {"errors", "evidence", "records"},
    "settings": {"errors", "engines.catalog", "checkpoints.hub_cache", "checkpoints.semantics"},
    "bundled": {"errors"},
    "checkpoints": {"errors", "contract"},
    "environment": {"errors", "contract"},
    "experiments": {"errors", "contract", "trials", "checkpoints", "reference.knobs", "reference.messages"},
    "metrics": {"errors", "trials", "evidence", "records"},
    "checks": {"errors", "contract", "trials", "evidence", "records", "metrics"},
    "diagnosis": {"errors", "trials", "evidence", "records", "metrics", "checks"},
    "workloads": {"errors", "bundled", "engines.base"},
    "hosting": {"errors"},
    "engines": {"errors", "evidence", "records", "runs", "checkpoints", "hosting"},
    "reference": {"errors", "contract", "trials", "checkpoints", "hosting"},
    "tinypair": {"errors", "reference"},
    "faults": {"errors", "engines.base", "settings"},
    "probes": BASE | {"metrics", "engines", "experiments", "reference", "workloads", "plan"},
    "reports": {"errors", "contract", "evidence", "records", "runs", "metrics"},
    "plan": BASE | {"engines.arguments", "engines.base", "engines.model_folder", "workloads"},
    "session": BASE | {"metrics", "checks", "diagnosis", "engines", "probes", "workloads", "reports", "plan"},
    "selftest": BASE | {"faults", "plan", "probes", "session"},
    "inspection": BASE | {"checks", "diagnosis", "engines.arguments", "probes.contract"},
    "testing": {"checks.catalog", "inspection", "records", "session"},
    "plugin": {"settings", "records", "evidence", "inspection", "session", "plugin_run"},
    "plugin_run": BASE
    | {"checks.catalog", "engines.catalog", "inspection", "plan", "plugin", "reports", "session"},
    "cli": BASE | {"checks", "diagnosis", "faults", "inspection", "reports", "selftest", "session"},
    "__main__": {"cli"},
}
"""Part of the package -> parts (or single modules) it may import; itself always."""

HEAVY = {"torch", "transformers", "vllm", "safetensors", "triton"}
HEAVY_AT_TOP = (
    "reference/",
    "tinypair/target.py",
    "tinypair/drafter.py",
    "tinypair/build.py",
    "engines/vllm_capture.py",
)


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import hides which layer it reaches into"
            assert node.module
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Statements that importing the module executes: not those in functions or behind TYPE_CHECKING."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        yield child
        yield from run_at_import(child)


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_module_when_it_imports_another_part_then_its_layer_allows_it(path: Path) -> None:
    part = part_of(path)
    if part == "__init__":
        return
    allowed = MAY_IMPORT[part] | {part}
    parts = set(MAY_IMPORT)
    for name in imports_of(ast.parse(path.read_text())):
        inner = name.removeprefix("dflash_doctor.")
        if not name.startswith("dflash_doctor.") or inner.split(".")[0] not in parts:
            continue
        fits = any(inner == item or inner.startswith(item + ".") for item in allowed)
        # `from dflash_doctor.engines import child` is seen twice: as the package and as the module.
        is_package_of_allowed = any(item.startswith(inner + ".") for item in allowed)
        assert fits or is_package_of_allowed, f"{path.relative_to(PACKAGE)} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_module_when_it_needs_an_engine_library_then_imports_it_where_it_is_used(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    if name.startswith(HEAVY_AT_TOP):
        return
    for node in run_at_import(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found = {item.split(".")[0] for item in imports_of(node)}
            assert not found & HEAVY, name


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("import torch", ["torch"]),
        ("try:\n    import torch\nexcept ImportError:\n    pass", ["torch"]),
        ("class A:\n    import torch", ["torch"]),
        ("def f():\n    import torch", []),
        ("if TYPE_CHECKING:\n    import torch", []),
    ],
)
def test_run_at_import_when_an_import_is_nested_then_sees_it_only_if_it_runs(
    source: str, seen: list[str]
) -> None:
    nodes = [node for node in run_at_import(ast.parse(source)) if isinstance(node, ast.Import)]
    assert [name for node in nodes for name in imports_of(node)] == seen


def test_modules_when_counted_then_stay_readable() -> None:
    long = {
        path.relative_to(PACKAGE).as_posix(): count
        for path in modules()
        if (count := len(path.read_text().splitlines())) > 400
    }
    assert long == {}


def test_layers_when_listed_then_name_every_part_of_the_package() -> None:
    parts = {part_of(path) for path in modules()} - {"__init__"}
    assert parts == set(MAY_IMPORT)
