"""Prompt files are read whole or refused with file and line."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.errors import UsageError
from dflash_doctor.workloads.defaults import default_workload
from dflash_doctor.workloads.prompts import Prompt, Workload, load_prompts
from dflash_doctor.workloads.sampling import stratified
from dflash_doctor.workloads.turns import conversation_for_turn, num_turns, request_id

TEXT = st.text(min_size=1, max_size=20)


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_load_prompts_when_lines_are_good_then_gives_all_three_forms(tmp_path: Path) -> None:
    path = write(
        tmp_path / "p.jsonl",
        {"id": "a", "category": "x", "messages": [{"role": "user", "content": "hi"}]},
        "",
        {"id": "b", "prompt": "once upon"},
        {"category": "y", "turns": ["one", "two"]},
    )
    first, second, third = load_prompts(path).prompts
    assert first.messages == ({"role": "user", "content": "hi"},)
    assert (second.prompt, second.category) == ("once upon", "uncategorised")
    assert (third.id, third.turns) == ("p-4", ("one", "two"))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not JSON"),
        ("[1]", "a JSON list, not an object"),
        ({"id": "a"}, "it has none"),
        ({"id": "a", "prompt": "x", "turns": ["y"]}, "it has prompt and turns"),
        ({"id": "a", "prompt": ""}, "prompt is not a text"),
        ({"id": 3, "prompt": "x"}, "id is not a text"),
        ({"id": "a", "messages": []}, "messages is not a list with something in it"),
        ({"id": "a", "messages": [{"content": "x"}]}, "a message without a role"),
        ({"id": "a", "messages": [{"role": "user"}]}, "a user message without content"),
        ({"id": "a", "turns": ["x", 3]}, "a turn is not a text"),
        ({"id": "a", "prompt": "x", "promt": "y"}, "unknown key 'promt'"),
        ("[" * 100_000, "not JSON"),
        ('{"id": "a", "prompt": "\\ud800"}', "half of a surrogate pair"),
        ({"id": "a\nb", "prompt": "x"}, "id has a control character"),
        ({"id": "a", "category": "\x1b[31m", "prompt": "x"}, "category has a control character"),
        (
            {"id": "a", "messages": [{"role": "assistant", "content": None, "tool_calls": []}]},
            "without content",
        ),
    ],
)
def test_load_prompts_when_a_line_is_bad_then_names_file_and_line(
    tmp_path: Path, line: Any, why: str
) -> None:
    path = write(tmp_path / "p.jsonl", {"id": "ok", "prompt": "x"}, line)
    with pytest.raises(UsageError) as raised:
        load_prompts(path)
    assert raised.value.seen.startswith(f"{path}:2: ")
    assert why in raised.value.seen


def test_load_prompts_when_an_id_repeats_then_names_both_places(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", {"id": "same", "prompt": "x"})
    write(tmp_path / "b.jsonl", {"id": "same", "prompt": "y"})
    with pytest.raises(UsageError, match="already used at") as raised:
        load_prompts(tmp_path)
    assert "b.jsonl:1" in raised.value.seen
    assert "a.jsonl:1" in raised.value.seen


@pytest.mark.parametrize(
    "second", [{"id": "talk#2", "prompt": "x"}, {"id": "talk", "prompt": "x"}, {"id": "talk", "turns": ["x"]}]
)
@pytest.mark.parametrize("turned", [False, True])
def test_load_prompts_when_two_requests_would_share_an_id_then_refuses(
    tmp_path: Path, second: dict[str, Any], turned: bool
) -> None:
    lines = [{"id": "talk", "turns": ["one", "two"]}, second]
    path = write(tmp_path / "p.jsonl", *(reversed(lines) if turned else lines))
    with pytest.raises(UsageError) as raised:
        load_prompts(path)
    assert raised.value.seen.startswith(f"{path}:2: ")
    assert f"is already used at {path}:1" in raised.value.seen


def test_load_prompts_when_a_message_only_calls_a_tool_then_is_taken(tmp_path: Path) -> None:
    call = {"type": "function", "function": {"name": "now", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "What time is it?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "12:40"},
    ]
    path = write(tmp_path / "p.jsonl", {"id": "a", "messages": messages})
    assert load_prompts(path).prompts[0].messages == tuple(messages)


def test_load_prompts_when_a_line_is_too_large_then_stops_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dflash_doctor.workloads.prompts._MAX_LINE_BYTES", 100)
    path = write(tmp_path / "p.jsonl", {"id": "ok", "prompt": "x"}, {"id": "a", "prompt": "x" * 100})
    with pytest.raises(UsageError) as raised:
        load_prompts(path)
    assert raised.value.seen == f"{path}:2: longer than 100 bytes"


def test_load_prompts_when_there_is_nothing_then_says_so(tmp_path: Path) -> None:
    for place in (tmp_path / "none.jsonl", tmp_path, write(tmp_path / "empty.jsonl")):
        with pytest.raises(UsageError):
            load_prompts(place)


def test_load_prompts_when_the_file_is_not_text_then_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"id": "a", "prompt": "\xff"}\n')
    with pytest.raises(UsageError) as raised:
        load_prompts(path)
    assert raised.value.seen == f"{path}:1: not UTF-8: invalid start byte at byte 23"


@given(st.binary(max_size=300))
def test_load_prompts_when_given_any_bytes_then_answers_or_refuses(tmp_path_factory: Any, raw: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "p.jsonl"
    path.write_bytes(raw)
    with contextlib.suppress(UsageError):
        assert load_prompts(path).prompts


def as_item(prompt: Prompt) -> dict[str, Any]:
    forms = {"messages": prompt.messages, "prompt": prompt.prompt, "turns": prompt.turns}
    return {"id": prompt.id, "category": prompt.category, **{k: v for k, v in forms.items() if v is not None}}


CONTENTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
FORMS = st.one_of(
    st.fixed_dictionaries({"prompt": CONTENTS}),
    st.fixed_dictionaries({"turns": st.lists(CONTENTS, min_size=1, max_size=3).map(tuple)}),
    st.fixed_dictionaries(
        {
            "messages": st.lists(
                st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": CONTENTS}),
                min_size=1,
                max_size=3,
            ).map(tuple)
        }
    ),
)


@given(st.lists(st.tuples(st.sampled_from("abc"), FORMS), min_size=1, max_size=8), st.booleans())
def test_load_prompts_when_prompts_were_written_then_gives_the_same_back(
    tmp_path_factory: Any, drawn: list[tuple[str, dict[str, Any]]], escaped: bool
) -> None:
    prompts = tuple(Prompt(f"p{i}", category, **form) for i, (category, form) in enumerate(drawn))
    path = tmp_path_factory.mktemp("round") / "p.jsonl"
    lines = [json.dumps(as_item(prompt), ensure_ascii=escaped) for prompt in prompts]
    path.write_bytes("\n".join(lines).encode())
    loaded = load_prompts(path)
    assert loaded.prompts == prompts
    assert loaded.sha256 == Workload("another place", prompts).sha256


PROMPTS = st.lists(st.tuples(st.sampled_from("abcde"), TEXT), min_size=1, max_size=40).map(
    lambda items: [Prompt(f"p{i}", category, prompt=text) for i, (category, text) in enumerate(items)]
)


@given(PROMPTS, st.integers(1, 45), st.integers(0, 3))
def test_stratified_when_a_part_is_drawn_then_categories_stay_even(
    prompts: list[Prompt], count: int, seed: int
) -> None:
    drawn = stratified(prompts, count, seed=seed)
    assert len(drawn) == min(count, len(prompts))
    assert [item for item in prompts if item in drawn] == list(drawn)
    assert stratified(prompts, count, seed=seed) == drawn
    assert set(drawn) <= set(stratified(prompts, count + 1, seed=seed))
    taken = {c: sum(item.category == c for item in drawn) for c in "abcde"}
    there = {c: sum(item.category == c for item in prompts) for c in "abcde"}
    for category in "abcde":
        if taken[category] < there[category]:
            assert taken[category] >= max(taken.values()) - 1


@given(PROMPTS)
def test_workload_sha256_when_anything_changes_then_changes(prompts: list[Prompt]) -> None:
    original = Workload("x", tuple(prompts)).sha256
    assert Workload("elsewhere", tuple(prompts)).sha256 == original
    first = prompts[0]
    other = Prompt(first.id, first.category, prompt=(first.prompt or "") + "!")
    assert Workload("x", (other, *prompts[1:])).sha256 != original
    assert Workload("x", tuple(prompts[1:])).sha256 != original


def test_conversation_for_turn_when_turns_go_on_then_answers_stand_between() -> None:
    prompt = Prompt("m", "chat", turns=("one", "two", "three"))
    assert num_turns(prompt) == 3
    assert request_id(prompt, 1) == "m#2"
    messages = conversation_for_turn(prompt, 2, ["first", "second", "unused"]).messages
    assert messages is not None
    assert [(m["role"], m["content"]) for m in messages] == [
        ("user", "one"),
        ("assistant", "first"),
        ("user", "two"),
        ("assistant", "second"),
        ("user", "three"),
    ]
    raw = Prompt("r", "chat", prompt="text")
    assert (num_turns(raw), request_id(raw, 0)) == (1, "r")
    assert conversation_for_turn(raw, 0, []).prompt == "text"


def test_default_workload_when_the_pair_brings_prompts_then_they_are_used(tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", {"id": "own", "prompt": "x"})
    (tmp_path / "target").mkdir()
    assert default_workload(str(tmp_path / "target")).prompts[0].id == "own"


def test_default_workload_when_the_target_is_a_link_then_looks_beside_the_link(tmp_path: Path) -> None:
    (tmp_path / "models" / "target").mkdir(parents=True)
    (tmp_path / "pair").mkdir()
    (tmp_path / "pair" / "target").symlink_to(tmp_path / "models" / "target")
    write(tmp_path / "models" / "prompts.jsonl", {"id": "another", "prompt": "x"})
    write(tmp_path / "pair" / "prompts.jsonl", {"id": "own", "prompt": "x"})
    assert default_workload(str(tmp_path / "pair" / "target")).prompts[0].id == "own"


def test_default_workload_when_the_target_is_a_hub_id_then_takes_nothing_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "prompts.jsonl", {"id": "stray", "prompt": "x"})
    monkeypatch.chdir(tmp_path)
    assert len(default_workload("gpt2").prompts) > 100


def test_default_workload_when_the_pair_brings_none_then_the_bundled_set_is(tmp_path: Path) -> None:
    workload = default_workload(str(tmp_path / "nowhere" / "target"))
    counts: dict[str, int] = {}
    for prompt in workload.prompts:
        counts[prompt.category] = counts.get(prompt.category, 0) + 1
    assert len(counts) >= 10
    assert all(8 <= count <= 20 for count in counts.values())
    assert len({prompt.sha256 for prompt in workload.prompts}) == len(workload.prompts)


def test_bundled_prompts_when_read_then_are_as_their_readme_says() -> None:
    prompts = load_prompts(bundled_fixtures() / "prompts").prompts
    for prompt in prompts:
        assert re.fullmatch(rf"{prompt.category}-\d\d", prompt.id)
    assert sum(prompt.turns is not None for prompt in prompts) >= 10
    systems = [prompt for prompt in prompts if prompt.messages and prompt.messages[0]["role"] == "system"]
    assert len(systems) >= 10
    words = {prompt.id: sum(len(text.split()) for text in texts(prompt)) for prompt in prompts}
    assert sum(300 <= count <= 800 for count in words.values()) >= 15
    assert sum(count <= 40 for count in words.values()) >= 30


def test_bundled_prompts_when_read_then_share_no_long_text() -> None:
    """A text in two prompts would be served from the prefix cache, and measure one thing twice."""
    owners: dict[str, str] = {}
    for prompt in load_prompts(bundled_fixtures() / "prompts").prompts:
        for text in texts(prompt):
            words = text.split()
            for start in range(len(words) - 39):
                piece = " ".join(words[start : start + 40])
                assert owners.setdefault(piece, prompt.id) == prompt.id, piece


def texts(prompt: Prompt) -> list[str]:
    if prompt.prompt is not None:
        return [prompt.prompt]
    return list(prompt.turns or [message["content"] for message in prompt.messages or ()])


def test_fixtures_when_checked_then_sums_fit_every_file() -> None:
    import hashlib

    for folder in (bundled_fixtures(), bundled_fixtures() / "tiny_pair"):
        listed = {}
        for line in (folder / "SHA256SUMS").read_text().splitlines():
            digest, name = line.split("  ")
            listed[name] = digest
        found = {
            file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in folder.rglob("*")
            if file.is_file() and file.name != "SHA256SUMS"
        }
        assert listed == found


def test_tiny_pair_when_read_then_has_forty_prompts_a_category() -> None:
    prompts = load_prompts(bundled_fixtures() / "tiny_pair" / "prompts.jsonl").prompts
    counts: dict[str, int] = {}
    for prompt in prompts:
        counts[prompt.category] = counts.get(prompt.category, 0) + 1
    assert counts == dict.fromkeys(("math", "code", "chat", "json", "ramble"), 40)
