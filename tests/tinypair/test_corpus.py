"""The tiny pair's world: right, repeatable, and partly unpredictable."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

from dflash_doctor.tinypair.corpus import CATEGORIES, dialogues


@pytest.mark.parametrize("category", CATEGORIES)
def test_dialogues_when_made_twice_then_are_the_same_and_other_seeds_are_not(category: str) -> None:
    first = dialogues(category, 30, seed=1)
    assert first == dialogues(category, 30, seed=1)
    assert first != dialogues(category, 30, seed=2)
    assert first[:10] == dialogues(category, 10, seed=1)


@pytest.mark.parametrize("category", CATEGORIES)
def test_dialogue_when_read_then_alternates_from_user_to_assistant(category: str) -> None:
    for item in dialogues(category, 100, seed=4):
        assert item.category == category
        assert len(item.turns) % 2 == 0
        assert all(turn and turn == turn.strip() for turn in (*item.turns, item.thinking))
        assert [message["role"] for message in item.messages] == ["user", "assistant", "user"][
            : len(item.turns) - 1
        ]
        assert tuple(message["content"] for message in item.messages) == item.turns[:-1]
        assert item.questions == tuple(
            message["content"] for message in item.messages if message["role"] == "user"
        )


def test_chat_dialogues_when_many_then_some_have_two_turns() -> None:
    lengths = Counter(len(item.turns) for item in dialogues("chat", 300, seed=0))
    assert set(lengths) == {2, 4}
    assert lengths[4] > 50


def test_math_dialogues_when_read_then_the_sums_are_right_and_nobody_gives_what_is_not_there() -> None:
    results = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}
    sums = 0
    for item in dialogues("math", 300, seed=5):
        for left, sign, right, total in re.findall(r"(\d+) ([+*-]) (\d+) = (-?\d+)", item.turns[-1]):
            assert results[sign](int(left), int(right)) == int(total) > 0
            sums += 1
        assert item.turns[-1].endswith(f"#### {total}")
    assert sums > 300


def test_json_dialogues_when_parsed_then_are_json() -> None:
    import json

    for item in dialogues("json", 200, seed=6):
        assert json.loads(item.turns[-1])


def test_code_dialogues_when_run_then_are_python() -> None:
    for item in dialogues("code", 100, seed=7):
        source = item.turns[-1].removeprefix("```python\n").removesuffix("\n```")
        compile(source, "answer", "exec")


def test_ramble_answers_when_the_question_is_the_same_then_mostly_but_not_always_agree() -> None:
    """A look-up that never failed could be learnt fully; one that always failed could not be learnt."""
    nouns = defaultdict(Counter)
    for item in dialogues("ramble", 8000, seed=8):
        nouns[item.questions][item.turns[-1].split()[2]] += 1
    repeated = [counts for counts in nouns.values() if counts.total() >= 5]
    share = sum(max(counts.values()) for counts in repeated) / sum(counts.total() for counts in repeated)
    assert len(repeated) > 100
    assert 0.8 < share < 0.95
