"""A pair can be built from nothing; a real one is as good as the bundled one in kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="building a pair needs torch")
pytest.importorskip("transformers", reason="building a pair needs transformers")

from dflash_doctor.bundled import bundled_fixtures  # noqa: E402
from dflash_doctor.reference.dflash import load_drafter  # noqa: E402
from dflash_doctor.tinypair.build import BuiltPair, build_pair  # noqa: E402
from dflash_doctor.tinypair.corpus import CATEGORIES, dialogues  # noqa: E402
from dflash_doctor.tinypair.drafter import block_mask  # noqa: E402
from dflash_doctor.tinypair.shape import PairShape, Recipe  # noqa: E402
from dflash_doctor.tinypair.target import set_rate  # noqa: E402
from dflash_doctor.tinypair.text import CHAT_TEMPLATE, conversation_text, train_tokenizer  # noqa: E402
from dflash_doctor.workloads.prompts import load_prompts  # noqa: E402

BUNDLED = bundled_fixtures() / "tiny_pair"


@pytest.fixture(scope="module")
def micro(tmp_path_factory: pytest.TempPathFactory) -> BuiltPair:
    """A pair of another shape, trained for a moment: every step of the build in seconds."""
    shape = PairShape(
        hidden_size=64,
        intermediate_size=96,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_target_layers=4,
        num_draft_layers=1,
        block_size=5,
        target_layer_ids=(0, 2),
    )
    return build_pair(tmp_path_factory.mktemp("pair"), shape=shape, recipe=Recipe().scaled(0.004), seed=3)


@pytest.mark.parametrize("category", CATEGORIES)
def test_dialogues_when_made_twice_then_are_the_same_and_other_seeds_are_not(category: str) -> None:
    first = dialogues(category, 30, seed=1)
    assert first == dialogues(category, 30, seed=1)
    assert first != dialogues(category, 30, seed=2)
    for item in first:
        assert len(item.turns) % 2 == 0
        assert all(item.turns)
        assert item.messages[-1]["role"] == "user"


def test_math_dialogues_when_read_then_the_sums_are_right() -> None:
    import re

    for item in dialogues("math", 200, seed=5):
        for left, sign, right, total in re.findall(r"(\d+) ([+*-]) (\d+) = (-?\d+)", item.turns[-1]):
            assert {"+": int(left) + int(right), "-": int(left) - int(right), "*": int(left) * int(right)}[
                sign
            ] == int(total)


def test_tokenizer_when_trained_then_round_trips_and_keeps_digits_single() -> None:
    texts = ["".join(conversation_text(item.turns)) for item in dialogues("math", 300, seed=0)]
    tokenizer = train_tokenizer(texts, vocab_size=600)
    text = "Mia has 1234 stickers. É\n\n🙂"
    encoded = tokenizer.encode(text)
    assert tokenizer.decode(encoded.ids) == text
    assert [token for token in encoded.tokens if token.isdigit()] == ["1", "2", "3", "4"]
    assert [tokenizer.token_to_id(name) for name in ("<|endoftext|>", "<|im_end|>", "<|mask|>")] == [0, 2, 3]
    assert tokenizer.encode("<think>").ids == [tokenizer.token_to_id("<think>")]


def test_chat_template_when_rendered_then_equals_the_text_of_training() -> None:
    import jinja2

    template = jinja2.Environment().from_string(CHAT_TEMPLATE)
    item = next(item for item in dialogues("chat", 50, seed=0) if len(item.turns) == 4)
    prompt, _ = conversation_text(item.turns)
    assert (
        template.render(messages=item.messages, add_generation_prompt=True, enable_thinking=False) == prompt
    )
    thinking, _ = conversation_text(item.turns, thinking="hm")
    assert template.render(messages=item.messages, add_generation_prompt=True) == thinking


def test_block_mask_when_blocks_stand_side_by_side_then_each_sees_its_context_and_itself() -> None:
    mask = block_mask(torch.tensor([[2, 4]]), width=2, num_context=5)
    assert mask.shape == (1, 4, 9)
    assert mask[0].int().tolist() == [
        [1, 1, 0, 0, 0, 1, 1, 0, 0],
        [1, 1, 0, 0, 0, 1, 1, 0, 0],
        [1, 1, 1, 1, 0, 0, 0, 1, 1],
        [1, 1, 1, 1, 0, 0, 0, 1, 1],
    ]


def test_set_rate_when_training_goes_on_then_rises_stays_and_falls() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    rates = []
    for step in range(1000):
        set_rate(optimizer, 1.0, step, 1000)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates[0] == pytest.approx(1 / 50)
    assert rates[100] == rates[600] == 1.0
    assert rates[-1] == pytest.approx(0.05, abs=0.01)


def test_build_pair_when_run_then_writes_a_pair_of_the_asked_shape(micro: BuiltPair) -> None:
    names = sorted(path.relative_to(micro.folder).as_posix() for path in micro.folder.rglob("*.*"))
    bundled = sorted(path.relative_to(BUNDLED).as_posix() for path in BUNDLED.rglob("*.*"))
    assert names == bundled
    drafter = load_drafter(micro.folder / "draft")
    assert (drafter.config.block_size, drafter.config.num_layers, drafter.config.target_layer_ids) == (
        5,
        1,
        (0, 2),
    )
    assert len(load_prompts(micro.folder / "prompts.jsonl").prompts) == 10
    config = json.loads((micro.folder / "target" / "config.json").read_text())
    assert (config["num_hidden_layers"], config["hidden_size"]) == (4, 64)
    assert 1.0 <= micro.acceptance_length <= 5.0
    assert set(micro.acceptance_length_by_category) == set(CATEGORIES)


def test_build_pair_when_run_then_transformers_loads_its_target(micro: BuiltPair) -> None:
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(micro.folder / "target")
    tokenizer = transformers.AutoTokenizer.from_pretrained(micro.folder / "target")
    assert model.dtype == torch.bfloat16
    assert tokenizer.decode(tokenizer.encode("Mia has 7 coins.")) == "Mia has 7 coins."
    messages = [{"role": "user", "content": "Hi"}]
    rendered = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, enable_thinking=False, tokenize=False
    )
    assert rendered.endswith("<think>\n\n</think>\n\n")


def test_shape_when_default_then_equals_the_bundled_configs() -> None:
    shape = PairShape()
    for name, config in (("target", shape.target_config()), ("draft", shape.draft_config())):
        assert json.loads((BUNDLED / name / "config.json").read_text()) == config


@pytest.mark.slow
def test_build_pair_when_the_whole_recipe_runs_then_acceptance_is_good_and_differs(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    built = build_pair(tmp_path)
    assert built.acceptance_length >= 3
    lengths = built.acceptance_length_by_category.values()
    assert max(lengths) - min(lengths) >= 1
    assert (
        max(built.acceptance_length_by_category, key=built.acceptance_length_by_category.__getitem__)
        == "code"
    )
