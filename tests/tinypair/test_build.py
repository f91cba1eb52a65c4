"""A pair can be built from nothing; a real one is as good as the bundled one in kind."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="building a pair needs torch")
transformers = pytest.importorskip("transformers", reason="building a pair needs transformers")

from dflash_doctor.bundled import bundled_fixtures  # noqa: E402
from dflash_doctor.errors import UsageError  # noqa: E402
from dflash_doctor.reference.loading import load_drafter  # noqa: E402
from dflash_doctor.tinypair import build  # noqa: E402
from dflash_doctor.tinypair.__main__ import main  # noqa: E402
from dflash_doctor.tinypair.build import BuiltPair, build_pair  # noqa: E402
from dflash_doctor.tinypair.corpus import CATEGORIES, Dialogue  # noqa: E402
from dflash_doctor.tinypair.shape import PairShape, Recipe  # noqa: E402
from dflash_doctor.workloads.prompts import load_prompts  # noqa: E402

BUNDLED = bundled_fixtures() / "tiny_pair"
SHAPE = PairShape(
    hidden_size=64,
    intermediate_size=96,
    num_attention_heads=2,
    num_key_value_heads=1,
    num_target_layers=4,
    num_draft_layers=1,
    block_size=5,
    target_layer_ids=(0, 3),
)
"""Another shape than the bundled pair's, with a tap on the last layer."""
MICRO = replace(Recipe().scaled(0.004), max_answer_tokens=12)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """As many as make a rebuild repeatable, and restored: other tests in this process compute, too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def micro(tmp_path_factory: pytest.TempPathFactory) -> BuiltPair:
    """Trained for a moment: every step of the build in seconds."""
    return build_pair(tmp_path_factory.mktemp("pair"), shape=SHAPE, recipe=MICRO, seed=3)


def test_build_pair_when_run_then_has_the_files_of_the_bundled_pair(micro: BuiltPair) -> None:
    names, bundled = (
        sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        for folder in (micro.folder, BUNDLED)
    )
    assert names == bundled
    for line in (micro.folder / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((micro.folder / name).read_bytes()).hexdigest() == digest
        names.remove(name)
    assert names == ["SHA256SUMS"]


def test_build_pair_when_run_then_drafter_and_target_have_the_asked_shape(micro: BuiltPair) -> None:
    config = load_drafter(micro.folder / "draft").config
    assert (config.block_size, config.num_layers, config.target_layer_ids) == (5, 1, (0, 3))
    target = json.loads((micro.folder / "target" / "config.json").read_text())
    assert (target["num_hidden_layers"], target["hidden_size"]) == (4, 64)
    assert list(micro.acceptance) == ["overall", *CATEGORIES]
    assert all(1 <= item.mean_acceptance_length <= 5 for item in micro.acceptance.values())
    assert len(load_prompts(micro.folder / "prompts.jsonl").prompts) == 2 * len(CATEGORIES)


def test_build_pair_when_run_then_transformers_loads_its_target(micro: BuiltPair) -> None:
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(
        micro.folder / "target", output_loading_info=True
    )
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    assert model.dtype == torch.bfloat16
    tokenizer = transformers.AutoTokenizer.from_pretrained(micro.folder / "target")
    assert tokenizer.decode(tokenizer.encode("Mia has 7 coins.")) == "Mia has 7 coins."
    messages = [{"role": "user", "content": "Hi"}]
    rendered = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, enable_thinking=False, tokenize=False
    )
    assert rendered.endswith("<think>\n\n</think>\n\n")


def test_build_pair_when_repeated_with_one_thread_then_gives_the_same_bytes(
    micro: BuiltPair, tmp_path: Path
) -> None:
    again = build_pair(tmp_path, shape=SHAPE, recipe=MICRO, seed=3)
    sums = (micro.folder / "SHA256SUMS").read_text()
    assert (tmp_path / "SHA256SUMS").read_text() == sums
    build_pair(tmp_path, shape=SHAPE, recipe=MICRO, seed=4)
    assert (tmp_path / "SHA256SUMS").read_text() != sums
    assert again.acceptance == micro.acceptance


def test_build_pair_when_it_trains_then_no_test_question_is_among_what_it_trains_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few enough questions in a category, chance alone would bring test questions into the training."""
    encoded: list[Dialogue] = []
    honest = build._encode

    def spy(tokenizer: object, item: Dialogue, thinking: str | None = None) -> build.Encoded:
        encoded.append(item)
        return honest(tokenizer, item, thinking)

    monkeypatch.setattr(build, "_encode", spy)
    recipe = replace(
        MICRO, num_dialogues=2000, draft_prompts=500, target_steps=1, draft_steps=1, num_test_prompts=8
    )
    build_pair(tmp_path, shape=SHAPE, recipe=replace(recipe, max_answer_tokens=3))
    rows = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    asked = {tuple(m["content"] for m in row["messages"] if m["role"] == "user") for row in rows}
    assert len(asked) == 8 * len(CATEGORIES)
    assert len(encoded) > 2000
    assert not asked & {item.questions for item in encoded}


def test_build_pair_when_the_folder_holds_something_else_then_refuses_before_training(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"thesis\.txt"):
        build_pair(tmp_path, shape=SHAPE, recipe=MICRO)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_build_command_when_out_is_a_file_then_exits_2_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, [str(tmp_path / "file"), "--threads", "1"])
    assert result.exit_code == 2
    assert "cannot be written" in result.output


@pytest.mark.parametrize("option", [["--scale", "0"], ["--threads", "0"], ["--seed", "-1"]])
def test_build_command_when_a_number_makes_no_sense_then_exits_2(option: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [str(tmp_path / "out"), *option])
    assert result.exit_code == 2
    assert option[0] in result.output
    assert not (tmp_path / "out").exists()


def test_recipe_when_scaled_then_only_the_counts_change() -> None:
    recipe = Recipe(target_batch=7, draft_peak_lr=1e-4)
    half = recipe.scaled(0.5)
    assert (half.target_steps, half.draft_steps, half.num_test_prompts) == (1200, 500, 20)
    assert (half.target_batch, half.draft_peak_lr) == (7, 1e-4)
    assert recipe.scaled(2.0).num_test_prompts == 40


@pytest.mark.slow
def test_build_pair_when_the_whole_recipe_runs_then_acceptance_is_good_and_differs(tmp_path: Path) -> None:
    measured = build_pair(tmp_path).acceptance
    lengths = {name: measured[name].mean_acceptance_length for name in CATEGORIES}
    assert measured["overall"].mean_acceptance_length >= 3
    assert max(lengths.values()) / min(lengths.values()) >= 1.5
    assert max(lengths, key=lengths.__getitem__) == "code"
