"""Templates are found, compared where they differ first, and their thinking switch is found by trying."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from doctor_process import PAIR
from hypothesis import given
from hypothesis import strategies as st
from template_styles import CHATML, HEADERS, TURNS

from dflash_doctor.checkpoints.template_file import read_template, trained_thinking
from dflash_doctor.checkpoints.template_parity import compare_templates


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with the bundled tokenizer and ChatML templates."""
    for name in ("target", "draft"):
        (tmp_path / name).mkdir()
        shutil.copy(PAIR / "target" / "tokenizer.json", tmp_path / name)
        (tmp_path / name / "chat_template.jinja").write_text(CHATML)
    return tmp_path / "target", tmp_path / "draft"


def test_compare_when_the_bundled_pair_is_given_then_nothing_differs_and_the_switch_is_found() -> None:
    found = compare_templates(PAIR / "target", PAIR / "draft")
    assert found.num_differing == 0
    assert found.num_cases > 30
    assert found.failures == ()
    assert found.target is not None
    assert found.target.has_thinking_switch is True
    assert found.target.generation_prompts["off"].endswith("</think>\n\n")


def test_compare_when_the_empty_block_is_missing_then_says_where_and_in_which_mode(
    pair: tuple[Path, Path],
) -> None:
    template = CHATML.replace("enable_thinking is false", "false")
    (pair[1] / "chat_template.jinja").write_text(template)
    found = compare_templates(*pair)
    assert found.num_differing == 12, "every conversation that is asked with thinking off"
    assert {item.thinking for item in found.differences} == {"off"}
    assert found.target is not None
    assert found.draft is not None
    assert found.target.generation_prompts["off"] == "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert found.draft.generation_prompts["off"] == "<|im_start|>assistant\n"
    assert found.draft.has_thinking_switch is False
    first = found.differences[0]
    assert first.target_excerpt.endswith("<think>\\n\\n</think>\\n\\n")
    assert first.token_index is not None
    assert first.draft_token == "the end"


def test_compare_when_a_space_differs_then_shows_it(pair: tuple[Path, Path]) -> None:
    (pair[1] / "chat_template.jinja").write_text(
        CHATML.replace("message.role + '\\n'", "message.role + ' \\n'")
    )
    first = compare_templates(*pair).differences[0]
    assert "user\\n" in first.target_excerpt
    assert "user \\n" in first.draft_excerpt


def test_compare_when_special_tokens_differ_then_the_rendering_differs(pair: tuple[Path, Path]) -> None:
    for folder, token in zip(pair, ("<s>", "<bos>"), strict=True):
        (folder / "chat_template.jinja").write_text(HEADERS)
        (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": {"content": token}}))
    first = compare_templates(*pair).differences[0]
    assert first.index == 1
    assert first.target_excerpt.startswith("<s>")


def test_compare_when_one_hangs_then_the_other_is_still_described(pair: tuple[Path, Path]) -> None:
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    (pair[1] / "chat_template.jinja").write_text(loop)
    found = compare_templates(*pair, limit_s=0.05)
    assert {item.kind for item in found.failures if item.role == "draft"} == {"time-limit"}
    assert [item for item in found.failures if item.role == "target"] == []
    assert found.target is not None
    assert found.target.has_thinking_switch is True


def test_compare_when_a_template_refuses_then_only_these_conversations_fail(pair: tuple[Path, Path]) -> None:
    for folder in pair:
        (folder / "chat_template.jinja").write_text(TURNS)
    found = compare_templates(*pair)
    assert {item.kind for item in found.failures} == {"refused"}
    assert any("with a system message" in item.case for item in found.failures)
    assert found.num_cases > 10
    assert found.num_differing == 0


@pytest.mark.parametrize(
    ("files", "field", "text"),
    [
        ({"chat_template.jinja": "A", "tokenizer_config.json": '{"chat_template": "B"}'}, None, "A"),
        ({"tokenizer_config.json": '{"chat_template": "B"}'}, "chat_template", "B"),
        ({"chat_template.json": '{"chat_template": "C"}'}, "chat_template", "C"),
        (
            {"tokenizer_config.json": json.dumps({"chat_template": [
                {"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})},
            "chat_template.default",
            "D",
        ),
    ],
)  # fmt: skip
def test_read_template_when_it_stands_in_one_of_its_places_then_is_found(
    files: dict[str, str], field: str | None, text: str, tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    found = read_template(tmp_path)
    assert found is not None
    assert (found.key, found.text) == (field, text)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("chat_template.jinja", b"\xff\xfe", "not UTF-8"),
        ("chat_template.jinja", b"x" * (5 * 1024 * 1024), "at most"),
        ("tokenizer_config.json", b'{"chat_template": 3}', "JSON int"),
        ("tokenizer_config.json", b'{"chat_template": [{"name": "rag", "template": "x"}]}', "called default"),
        ("tokenizer_config.json", b"{", "line 1"),
    ],
)
def test_read_template_when_it_is_damaged_then_says_why(
    name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    found = read_template(tmp_path)
    assert found is not None
    assert found.text is None
    assert said in (found.problem or "")


def test_read_template_when_it_is_a_pipe_or_a_link_out_then_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "chat_template.jinja")
    (tmp_path / "b").mkdir()
    (tmp_path / "secret").write_text("x")
    (tmp_path / "b" / "chat_template.jinja").symlink_to(tmp_path / "secret")
    for name, said in (("a", "not a regular file"), ("b", "a link out of the folder")):
        found = read_template(tmp_path / name)
        assert found is not None
        assert said in (found.problem or "")
    assert read_template(tmp_path) is None


@pytest.mark.parametrize(
    ("card", "mode"),
    [
        ("This drafter was trained on non-thinking text.", "off"),
        ("Supports: non-thinking mode only.", "off"),
        ("It was trained with thinking traces.", "on"),
        ("Works with thinking and non-thinking requests.", None),
        ("A drafter for Qwen3-8B.", None),
        ("trained on non-thinking data; a sibling was trained on thinking data", None),
    ],
)
def test_trained_thinking_when_the_card_says_it_then_is_taken_and_else_not(
    card: str, mode: str | None, tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text("# Drafter\n\n" + card)
    found, source = trained_thinking(tmp_path)
    assert found == mode
    assert source.startswith("README.md:3") == (mode is not None)


def test_trained_thinking_when_the_config_says_it_then_wins(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"dflash_config": {"enable_thinking": true}}')
    assert trained_thinking(tmp_path) == ("on", "config.json: dflash_config.enable_thinking")


@given(st.binary(max_size=400))
def test_read_template_when_files_hold_anything_then_never_raises(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("any")
    for name in ("tokenizer_config.json", "README.md", "special_tokens_map.json"):
        (folder / name).write_bytes(content)
    read_template(folder)
    trained_thinking(folder)
    (folder / "chat_template.jinja").write_bytes(content)
    found = read_template(folder)
    assert found is not None
    assert (found.text is None) == (found.problem is not None)
