"""What an engine registers, read in its files; it agrees with what the real one answers when asked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from doctor_process import require_vllm
from fake_packages import SGLANG_FILES, VLLM_FILES, install

from dflash_doctor.environment.answers import keep, key_of
from dflash_doctor.environment.installed import Distribution, find_all
from dflash_doctor.environment.registry import probe_registry, registries
from dflash_doctor.environment.source_registry import read_registry


def found_in(site: Path) -> dict[str, Distribution]:
    return find_all([str(site)])


def test_registries_when_engines_are_installed_then_each_is_read(tmp_path: Path) -> None:
    install(tmp_path, "vllm", "0.32.0", files=VLLM_FILES)
    install(tmp_path, "sglang", "0.5.23", files=SGLANG_FILES)
    vllm, sglang = registries(found_in(tmp_path), cache=tmp_path / "cache")
    assert vllm.methods == ("ngram", "eagle", "eagle3", "deepseek_mtp", "mtp", "dflash")
    assert vllm.draft_architectures == ("DFlashDraftModel", "DFlash2DraftModel")
    assert set(vllm.architectures) == {
        "LlamaForCausalLM", "Qwen3ForCausalLM", "BertModel", "DFlashDraftModel", "DFlash2DraftModel",
    }  # fmt: skip
    assert sglang.methods == ("DFLASH", "EAGLE3")
    assert sglang.draft_architectures == ("DFlashDraftModel", "DFlash2DraftModel")
    assert "LlamaForCausalLM" in sglang.architectures
    assert not vllm.probed
    assert not (tmp_path / "cache").exists(), "reading writes nothing"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "_VLLM_MODELS = {**_OTHER}\n_SPECULATIVE_DECODING_MODELS = {}\n",
        "_VLLM_MODELS = build()\n_SPECULATIVE_DECODING_MODELS = {}\n",
        "_VLLM_MODELS = {\n",
        "\x00\x00",
        "(" * 5000,
    ],
    ids=["empty", "unknown table", "call", "cut off", "null bytes", "nested"],
)
def test_read_registry_when_the_source_is_laid_out_otherwise_then_says_so_and_claims_nothing(
    text: str, tmp_path: Path
) -> None:
    files = VLLM_FILES | {"vllm/model_executor/models/registry.py": text}
    install(tmp_path, "vllm", "9.0", files=files)
    facts = read_registry("vllm", tmp_path, "9.0")
    assert facts.error is not None
    assert facts.architectures == ()


@pytest.mark.parametrize("engine", ["vllm", "sglang", "transformers"])
def test_read_registry_when_files_are_missing_then_says_so(engine: str, tmp_path: Path) -> None:
    assert read_registry(engine, tmp_path, "1").error is not None


ANSWER = "answer = {'methods': ['dflash'], 'architectures': ['A'], 'draft_architectures': ['A']}"


@pytest.mark.parametrize(
    ("question", "error"),
    [
        (ANSWER, None),
        ("print('x' * 10_000_000)\n" + ANSWER, None),
        ("raise RuntimeError('no CUDA here')", "no CUDA here"),
        ("import time; time.sleep(600)", "did not answer within"),
        ("import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])",
         "did not answer within"),
        ("while True: print('x' * 1000)", "did not answer within"),
        ("import os; os.abort()", "SIGABRT"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("import os; os._exit(3)", "exit status 3"),
        ("answer = {'methods': 1}", "exit status 0"),
    ],
    ids=["good", "noisy", "raises", "hangs", "child hangs", "endless", "aborts", "crashes", "exits", "junk"],
)  # fmt: skip
def test_probe_when_the_engine_misbehaves_then_comes_back_with_the_reason(
    question: str, error: str | None
) -> None:
    limit = 2.0 if error is not None and "within" in error else 60.0
    facts = probe_registry("vllm", "0.32.0", question=question, time_limit_s=limit)
    assert facts.probed
    if error is None:
        assert (facts.error, facts.methods, facts.architectures) == (None, ("dflash",), ("A",))
    else:
        assert error in (facts.error or "")
        assert facts.methods == ()


def test_registries_when_an_answer_is_kept_then_it_counts_until_the_package_changes(tmp_path: Path) -> None:
    folder = install(tmp_path / "site", "vllm", "0.32.0", files=VLLM_FILES)
    cache = tmp_path / "cache"
    found = found_in(tmp_path / "site")
    asked = probe_registry("vllm", "0.32.0", question=ANSWER)
    keep("registry", key_of("registry", "vllm", "vllm", found["vllm"].stamp), asked, folder=cache)
    assert registries(found, cache=cache) == (asked,)
    for file in cache.iterdir():
        file.write_text("{damaged")
    assert not registries(found, cache=cache)[0].probed
    keep("registry", key_of("registry", "vllm", "vllm", found["vllm"].stamp), asked, folder=cache)
    (folder / "RECORD").write_text("changed")
    assert not registries(found_in(tmp_path / "site"), cache=cache)[0].probed


@pytest.mark.engine
@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_read_registry_when_the_real_engine_is_asked_then_they_agree(engine: str) -> None:
    require_vllm()
    found = find_all()
    read = {item.engine: item for item in registries(found, cache=Path(sys.prefix) / "none")}[engine]
    asked = probe_registry(engine, read.version or "")
    assert asked.error is None
    assert (read.error, read.probed, asked.probed) == (None, False, True)
    assert set(read.methods) == set(asked.methods)
    assert set(read.architectures) == set(asked.architectures)
    assert set(read.draft_architectures) == set(asked.draft_architectures)
    assert "dflash" in read.methods
