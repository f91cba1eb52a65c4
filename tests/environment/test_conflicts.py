"""Packages that do not fit are told by what they declare and by importing them, in bounded time."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_packages import install

from dflash_doctor.environment.conflicts import (
    MODULES,
    doubtful,
    import_problems,
    try_import,
    version_conflicts,
)
from dflash_doctor.environment.installed import find_all


def test_version_conflicts_when_a_range_is_broken_then_names_both_sides(tmp_path: Path) -> None:
    install(tmp_path, "vllm", "0.32.0", requires=[
        "torch==2.13.0", "transformers<5.20,>=5.16", "torchvision", "numpy; python_version < '3'",
        "flash-attn>=3; extra == 'fa'", "not a requirement", "triton>=3; platform_system == 'Nowhere'",
    ])  # fmt: skip
    install(tmp_path, "torch", "2.12.1+cu130", requires=["triton==3.9.0"])
    install(tmp_path, "transformers", "5.19.0")
    install(tmp_path, "triton", "3.9.0")
    install(tmp_path, "numpy", "1.0")
    conflicts, num_ranges = version_conflicts(find_all([str(tmp_path)]))
    assert num_ranges == 3
    assert [(item.package, item.version, item.required_by) for item in conflicts] == [
        ("torch", "2.12.1+cu130", "vllm 0.32.0")
    ]
    assert conflicts[0].requirement == "torch==2.13.0"


def test_version_conflicts_when_a_build_tag_is_all_that_differs_then_is_none(tmp_path: Path) -> None:
    install(tmp_path, "vllm", "0.32.0", requires=["torch==2.13.0", "transformers>=5"])
    install(tmp_path, "torch", "2.13.0+cu130")
    install(tmp_path, "transformers", "5.20.0.dev0")
    assert version_conflicts(find_all([str(tmp_path)]))[0] == ()


def test_version_conflicts_when_this_environment_is_asked_then_finds_none() -> None:
    assert version_conflicts(find_all())[0] == ()


@pytest.mark.parametrize(
    ("torch", "vision", "is_doubtful"),
    [
        ("2.13.0", "0.28.0", False),
        ("2.13.0+cpu", "0.28.0+cpu", False),
        ("2.13.0+cpu", "0.28.0", True),
        ("2.13.0+cu130", "0.28.0+cu128", True),
    ],
)
def test_doubtful_when_build_tags_differ_then_names_the_package(
    torch: str, vision: str, is_doubtful: bool, tmp_path: Path
) -> None:
    install(tmp_path, "torch", torch)
    install(tmp_path, "torchvision", vision)
    assert doubtful(find_all([str(tmp_path)])) == (("torchvision",) if is_doubtful else ())


IMPORTS = [
    ("x = 1", None, None),
    ("print('x' * 10_000_000)", None, None),
    ("raise RuntimeError('operator torchvision::nms does not exist')", "torchvision::nms", "another torch"),
    ("raise ImportError('a.so: undefined symbol: _ZN3c10')", "undefined symbol", "another torch"),
    ("raise ImportError('libcudart.so.13: cannot open shared object file')", "libcudart", "built for CUDA"),
    ("import a_package_that_is_not_there", "No module named", "needs is missing"),
    ("print('y' * 10_000_000); raise ValueError('end')", "end", "its import fails"),
    ("import time; time.sleep(600)", "no end after", "does not finish"),
    ("import os; os.kill(os.getpid(), 11)", "SIGSEGV", "crashes"),
    ("raise SystemExit(0)", None, None),
]


@pytest.mark.parametrize(("source", "error", "meaning"), IMPORTS, ids=range(len(IMPORTS)))
def test_try_import_when_a_package_misbehaves_then_says_what_it_means(
    source: str, error: str | None, meaning: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "misbehaving_package.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    limit = 2.0 if error == "no end after" else 60.0
    problem = try_import("torchvision", "1.0", module="misbehaving_package", time_limit_s=limit)
    if error is None:
        assert problem is None
        return
    assert problem is not None
    assert meaning is not None
    assert error in problem.error
    assert meaning in problem.meaning
    assert len(problem.error) <= 500


def test_import_problems_when_tried_once_then_the_answer_is_kept_until_torch_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, cache = tmp_path / "site", tmp_path / "cache"
    torch = install(site, "torch", "2.13.0+cpu")
    install(site, "torchvision", "0.28.0", files={"torchvision.py": "raise OSError('undefined symbol: x')"})
    install(site, "torchaudio", "2.13.0+cpu", files={"torchaudio.py": "raise OSError"})
    monkeypatch.setenv("PYTHONPATH", str(site))
    found = find_all([str(site)])
    assert import_problems(found, tries="none", cache=cache) == ((), (), ("torchvision", "torchaudio"))
    problems, tried, untried = import_problems(found, cache=cache)
    assert [item.package for item in problems] == ["torchvision"]
    assert (tried, untried) == (("torchvision",), ("torchaudio",))
    (site / "torchvision.py").write_text("")
    assert import_problems(found, tries="none", cache=cache)[0] == problems, "kept"
    assert len(import_problems(found, tries="all", cache=cache)[0]) == 1, "torchaudio; torchvision works now"
    (torch / "RECORD").write_text("again")
    assert import_problems(find_all([str(site)]), tries="none", cache=cache)[1] == ()


def test_modules_when_listed_then_each_is_a_known_package() -> None:
    from dflash_doctor.environment.installed import PACKAGES

    assert set(MODULES) <= set(PACKAGES)
