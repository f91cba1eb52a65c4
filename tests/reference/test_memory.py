"""A target that does not fit is said not to, before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the reference needs torch")

from dflash_doctor.errors import EngineError  # noqa: E402
from dflash_doctor.reference import memory  # noqa: E402

CPU = torch.device("cpu")


def target(folder: Path, num_bytes: int) -> Path:
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(num_bytes)
    return folder


@pytest.mark.parametrize(("free", "dtype"), [(10_000, "float32"), (2_000, "auto")])
def test_fitting_dtype_when_there_is_room_then_prefers_float32(
    free: int, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _: free)
    assert memory.fitting_dtype(target(tmp_path, 1_000), CPU) == dtype


def test_fitting_dtype_when_nothing_fits_then_says_how_much_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _: 3_000_000_000)
    with pytest.raises(EngineError, match=r"4\.0 GB of weights, 3\.0 GB free on the cpu"):
        memory.fitting_dtype(target(tmp_path, 4_000_000_000), CPU)


def test_free_bytes_when_asked_on_a_cpu_then_is_what_the_system_says() -> None:
    assert memory.free_bytes(CPU) > 1 << 20
