"""Two templates that render the same are the same; else the first difference is shown, in text and tokens."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from template_styles import GEMMA, LLAMA, QWEN, STYLES

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.checkpoints import template_parity
from dflash_doctor.checkpoints.template_battery import THINKING, conversations
from dflash_doctor.checkpoints.template_difference import difference_of, encode_all, first_difference
from dflash_doctor.checkpoints.template_parity import compare_templates
from dflash_doctor.checkpoints.template_render import RendererError
from dflash_doctor.checkpoints.thinking_metadata import declared_thinking
from dflash_doctor.contract.templates import TemplateComparison

PAIR = bundled_fixtures() / "tiny_pair"
NUM_RENDERINGS = len(THINKING) * len(conversations())


def folder_with(path: Path, template: str | None = None, **files: str) -> Path:
    path.mkdir()
    if template is not None:
        (path / "chat_template.jinja").write_text(template, encoding="utf-8")
    for name, content in files.items():
        (path / name.replace("_json", ".json").replace("_md", ".md")).write_text(content, encoding="utf-8")
    return path


def compare(tmp_path: Path, target: str, draft: str, *, time_limit_s: float = 30.0) -> TemplateComparison:
    tokens = json.dumps({"bos_token": "<s>"})
    sides = folder_with(tmp_path / "target", target, tokenizer_config_json=tokens)
    return compare_templates(sides, folder_with(tmp_path / "draft", draft), time_limit_s=time_limit_s)


def test_compare_when_it_is_the_tiny_pair_then_nothing_differs_and_the_switch_is_found() -> None:
    seen = compare_templates(PAIR / "target", PAIR / "draft")
    assert seen.is_identical
    assert (seen.num_cases, seen.num_differing, seen.differences, seen.failures) == (
        NUM_RENDERINGS,
        0,
        (),
        (),
    )
    assert seen.target.has_thinking_switch
    assert seen.target.default_thinking == "on"
    assert seen.target.generation_prompts["off"] == "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert seen.target.generation_prompts["on"] == "<|im_start|>assistant\n"
    assert seen.draft == seen.target
    assert (seen.draft_thinking, seen.problem) == ("off", None)


def test_compare_when_written_and_read_again_then_is_the_same() -> None:
    seen = compare_templates(PAIR / "target", PAIR / "draft")
    assert msgspec.json.decode(msgspec.json.encode(seen), type=TemplateComparison) == seen


@pytest.mark.parametrize("style", STYLES)
def test_compare_when_only_a_comment_differs_then_every_rendering_is_equal(
    tmp_path: Path, style: str
) -> None:
    seen = compare(tmp_path, STYLES[style], STYLES[style] + "{# a comment #}")
    assert seen.is_identical is False
    assert seen.num_differing == 0
    assert seen.num_cases + len([item for item in seen.failures if item.role == "draft"]) == NUM_RENDERINGS
    assert seen.target.has_thinking_switch == (style == "qwen")
    assert seen.target.default_thinking == ("on" if style == "qwen" else None)


def test_compare_when_styles_differ_then_all_differ_from_the_first_character_on(tmp_path: Path) -> None:
    seen = compare(tmp_path, QWEN, LLAMA)
    assert seen.num_differing == seen.num_cases > 0
    first = seen.differences[0]
    assert (first.case, first.thinking, first.char_index) == ("one-turn", "off", 1)
    assert first.target_excerpt.startswith("<|im_start|>user\nWhat is")
    assert first.draft_excerpt.startswith("<s><|start_header_id|>")
    assert len(seen.differences) < seen.num_differing
    assert seen.differing_cases[0] == "one-turn"


def test_compare_when_only_the_empty_think_block_is_missing_then_only_that_mode_differs(
    tmp_path: Path,
) -> None:
    seen = compare(tmp_path, QWEN, QWEN.replace("<think>\\n\\n</think>\\n\\n", ""))
    assert {item.thinking for item in seen.differences} == {"off"}
    assert seen.draft is not None
    assert seen.draft.has_thinking_switch is False
    assert seen.target.generation_prompts["off"] != seen.draft.generation_prompts["off"]
    assert seen.target.generation_prompts["on"] == seen.draft.generation_prompts["on"]
    assert "one-turn-without-generation-prompt" not in seen.differing_cases


def test_compare_when_only_tools_differ_then_only_those_cases_do(tmp_path: Path) -> None:
    seen = compare(tmp_path, QWEN, QWEN.replace("Functions you can call", "Your functions"))
    tools = {item.name for item in conversations() if item.tools is not None}
    assert set(seen.differing_cases) == tools
    assert seen.num_differing == len(THINKING) * len(tools)


def test_compare_when_one_side_refuses_then_it_is_a_failure_of_that_side(tmp_path: Path) -> None:
    seen = compare(tmp_path, STYLES["gemma-folded"], GEMMA)
    refused = {item.case for item in seen.failures}
    assert {item.role for item in seen.failures} == {"draft"}
    assert {item.kind for item in seen.failures} == {"refused"}
    assert {"system", "system-and-turns"} <= refused
    assert "one-turn" not in refused


def test_compare_when_a_template_has_another_switch_then_its_name_is_told(tmp_path: Path) -> None:
    opening = "{% if add_generation_prompt %}A:{% if thinking %}<think>{% endif %}{% endif %}"
    text = "{{ messages[0].content }}" + opening
    seen = compare_templates(folder_with(tmp_path / "target", text), None)
    assert seen.target.has_thinking_switch is False
    assert seen.target.other_thinking_switch == "thinking"
    assert seen.draft is None
    assert seen.num_cases == NUM_RENDERINGS


def test_compare_when_a_switch_is_only_mentioned_then_it_is_no_switch(tmp_path: Path) -> None:
    text = "{% if enable_thinking is defined %}{% endif %}{{ messages[0].content }}"
    seen = compare_templates(folder_with(tmp_path / "target", text), None)
    assert seen.target.has_thinking_switch is False


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "time-limit"),
        ("{{ 3 ** (9 ** 9) }}", "time-limit"),
        ("{% if %}", "syntax"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ 'x' * 10 ** 10 }}", "memory-limit"),
    ],
)
def test_compare_when_one_template_is_hostile_then_the_other_is_still_known(
    tmp_path: Path, text: str, kind: str
) -> None:
    seen = compare(tmp_path, text, QWEN, time_limit_s=4.0)
    assert {item.kind for item in seen.failures} == {kind}
    assert {item.role for item in seen.failures} == {"target"}
    assert seen.draft is not None
    assert seen.draft.has_thinking_switch
    assert set(seen.draft.generation_prompts) == set(THINKING)
    assert (seen.num_cases, seen.num_differing) == (0, 0)


def test_compare_when_files_are_missing_or_broken_then_that_is_the_failure(tmp_path: Path) -> None:
    bare = folder_with(tmp_path / "bare")
    broken = folder_with(tmp_path / "broken", tokenizer_config_json='{"chat_template": 5}')
    seen = compare_templates(bare, broken)
    assert [(item.role, item.kind) for item in seen.failures] == [
        ("target", "missing"),
        ("draft", "unreadable"),
    ]
    assert (seen.is_identical, seen.num_cases) == (None, 0)
    seen = compare_templates(PAIR / "target", bare)
    assert seen.num_cases == NUM_RENDERINGS
    assert seen.target.has_thinking_switch


def test_compare_when_special_tokens_differ_then_equal_text_is_not_equal(tmp_path: Path) -> None:
    sides = [
        folder_with(tmp_path / name, LLAMA, tokenizer_config_json=json.dumps({"bos_token": name}))
        for name in ("one", "two")
    ]
    seen = compare_templates(sides[0], sides[1])
    assert seen.is_identical is False
    assert seen.num_differing == seen.num_cases


def test_compare_when_nothing_can_be_rendered_here_then_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RendererError("jinja2 is not installed")

    monkeypatch.setattr(template_parity, "render_templates", broken)
    seen = compare_templates(PAIR / "target", PAIR / "draft")
    assert seen.problem == "jinja2 is not installed"
    assert seen.target.has_thinking_switch is None
    assert seen.failures == ()


def test_compare_when_there_is_a_tokenizer_then_the_first_token_is_named(tmp_path: Path) -> None:
    target = folder_with(tmp_path / "target", QWEN)
    draft = folder_with(tmp_path / "draft", QWEN.replace("'<|im_start|>assistant", "'<|im_start|>user"))
    seen = compare_templates(target, draft)
    assert seen.differences[0].token_index is None
    (target / "tokenizer.json").write_bytes((PAIR / "target" / "tokenizer.json").read_bytes())
    first = compare_templates(target, draft).differences[0]
    ids = encode_all(target, ["assistant"])
    assert ids is not None
    assert first.token_index is not None
    assert first.target_id != first.draft_id
    assert first.target_id in ids[0]
    (target / "tokenizer.json").write_text('{"version": "1.0", "model": {}}')
    assert compare_templates(target, draft).differences[0].token_index is None


def test_tokens_when_one_text_ends_first_then_its_id_is_none() -> None:
    found = difference_of("ab", "abc", case="x", thinking="on", ids=([7, 8], [7, 8, 9]))
    assert (found.char_index, found.token_index, found.target_id, found.draft_id) == (2, 2, None, 9)


@given(st.text(), st.text(), st.text())
def test_first_difference_when_texts_share_a_start_then_it_is_right_after_it(
    start: str, one: str, other: str
) -> None:
    one, other = start + one, start + other
    index = first_difference(one, other)
    assert index >= len(start)
    assert one[:index] == other[:index]
    assert one == other or one[index : index + 1] != other[index : index + 1]
    assert index == first_difference(other, one)


def test_battery_when_read_then_names_are_unique_and_the_plain_one_is_first() -> None:
    names = [item.name for item in conversations()]
    assert len(set(names)) == len(names)
    assert names[0] == "one-turn"


# What a drafter says of itself


@pytest.mark.parametrize(
    ("config", "mode"),
    [
        ({"dflash_config": {"thinking": False}}, "off"),
        ({"dflash_config": {"thinking": "on"}}, "on"),
        ({"enable_thinking": True}, "on"),
        ({"speculators_config": {"thinking_mode": "non-thinking"}}, "off"),
        ({"training_args": {"enable_thinking": "false"}}, "off"),
        ({"enable_thinking": True, "dflash_config": {"thinking": False}}, None),
        ({"thinking": {"type": "enabled"}}, None),
        ({"thinking": 1}, None),
        ({"dflash_config": [True]}, None),
        ({}, None),
    ],
)
def test_declared_when_the_config_says_it_then_it_is_taken(
    tmp_path: Path, config: dict[str, object], mode: str | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    found, source = declared_thinking(tmp_path)
    assert found == mode
    assert (source or "config.json: ").startswith("config.json: ")


@pytest.mark.parametrize(
    ("card", "mode"),
    [
        ("# Drafter\n\nThis drafter was trained on non-thinking responses only.", "off"),
        ("It was trained\nwith `enable_thinking=False`.", "off"),
        ("- Only supports non-thinking mode.\n- Fast.", "off"),
        ("Trained on 100k samples with thinking enabled.", "on"),
        ("The training data was generated in thinking mode.", "on"),
        ("Trained on both thinking and non-thinking data.", None),
        ("Trained with thinking and non-thinking data.", None),
        ("It was not trained with thinking enabled.", None),
        ("Trained without thinking.\n\nThe second version was trained with thinking.", None),
        ("| Qwen3-8B (non-thinking), trained | drafter |", None),
        ("```\ntrained with enable_thinking=False\n```", None),
        ("Qwen3 supports thinking and non-thinking.", None),
        ("We keep thinking about how it was trained.", None),
        ("", None),
    ],
)
def test_declared_when_the_card_says_it_in_so_many_words_then_it_is_taken(
    tmp_path: Path, card: str, mode: str | None
) -> None:
    (tmp_path / "README.md").write_text(card)
    found, source = declared_thinking(tmp_path)
    assert found == mode
    assert (source is None) == (mode is None)


def test_declared_when_the_config_says_it_then_the_card_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"thinking": true}')
    (tmp_path / "README.md").write_text("Trained on non-thinking responses.")
    assert declared_thinking(tmp_path) == ("on", "config.json: thinking = true")


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_declared_when_files_are_random_then_nothing_is_raised(
    tmp_path_factory: pytest.TempPathFactory, config: bytes, card: bytes
) -> None:
    folder = tmp_path_factory.mktemp("draft")
    (folder / "config.json").write_bytes(config)
    (folder / "README.md").write_bytes(card)
    assert declared_thinking(folder)[0] in (None, "off", "on")
