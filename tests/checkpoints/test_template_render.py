"""Rendering agrees with Transformers to the byte, in bounded time and memory whatever a template does."""

from __future__ import annotations

import sys
import types
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from template_styles import STYLES

from dflash_doctor.checkpoints import template_render
from dflash_doctor.checkpoints.template_battery import THINKING, conversations, thinking_variables
from dflash_doctor.checkpoints.template_child import FIXED_DATE
from dflash_doctor.checkpoints.template_render import (
    RenderCase,
    RendererError,
    Rendering,
    RenderTemplate,
    render_templates,
)

HELLO = RenderCase(messages=({"role": "user", "content": "Hello, Zürich"},))
PLAIN = "{% for message in messages %}{{ message.role }}: {{ message.content }}{% endfor %}"
RENDERED = "user: Hello, Zürich"


def render(text: str, *, cases: int = 3, time_limit_s: float = 10.0) -> Rendering:
    """A template over some equal conversations; a harmless one after it has to come out whole."""
    both = [RenderTemplate(texts={"default": text}), RenderTemplate(texts={"default": PLAIN})]
    first, second = render_templates(both, [HELLO] * cases, time_limit_s=time_limit_s)
    assert second == Rendering(texts=(RENDERED,) * cases)
    return first


def kinds(rendering: Rendering) -> list[str]:
    return [failure.kind for failure in rendering.failures]


def battery() -> list[RenderCase]:
    return [
        RenderCase(
            messages=item.messages,
            tools=item.tools,
            add_generation_prompt=item.add_generation_prompt,
            variables=dict(thinking_variables(mode)),
        )
        for mode in THINKING
        for item in conversations()
    ]


@pytest.mark.parametrize("style", STYLES)
def test_render_when_transformers_renders_the_same_then_agrees_to_the_byte(
    style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers", reason="what is agreed with")
    from transformers.utils import chat_template_utils

    from dflash_doctor.bundled import bundled_fixtures

    class SameDay:
        @staticmethod
        def now() -> datetime:
            return FIXED_DATE

    monkeypatch.setattr(chat_template_utils, "datetime", SameDay)
    tokenizer = transformers.AutoTokenizer.from_pretrained(bundled_fixtures() / "tiny_pair" / "target")
    tokenizer.bos_token = "<|endoftext|>"
    tokenizer.chat_template = STYLES[style]
    template = RenderTemplate(texts={"default": STYLES[style]}, special_tokens=tokenizer.special_tokens_map)
    cases = battery()
    (ours,) = render_templates([template], cases, time_limit_s=60.0)
    for index, case in enumerate(cases):
        theirs, refusal = None, ""
        try:
            theirs = tokenizer.apply_chat_template(
                list(case.messages),
                tools=None if case.tools is None else list(case.tools),
                add_generation_prompt=case.add_generation_prompt,
                tokenize=False,
                **case.variables,
            )
        except Exception as error:
            refusal = str(error)
        assert ours.texts[index] == theirs, case
        failure = next((item for item in ours.failures if item.case == index), None)
        assert (failure is None) == (theirs is not None)
        assert failure is None or refusal in failure.detail
    assert len(ours.failures) < len(cases) / 2


def test_render_when_styles_refuse_then_it_is_told_apart_from_breaking() -> None:
    template = RenderTemplate(texts={"default": STYLES["gemma"]})
    (ours,) = render_templates([template], battery(), time_limit_s=60.0)
    assert set(kinds(ours)) == {"refused"}
    assert ours.failures[0].detail == "No role for system messages here"


ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
DOUBLING = "{% set n = namespace(s='x' * 999) %}{% for i in range(40) %}{% set n.s = n.s ~ n.s %}{% endfor %}"

HOSTILE = {
    "endless loop": (ENDLESS, 1.0, {"time-limit"}),
    "long multiplication": ("{{ 3 ** (9 ** 9) }}", 1.0, {"time-limit"}),
    "long multiplication at run time": (
        "{% set n = messages | length + 8 %}{{ n ** (n ** n) }}",
        1.0,
        {"time-limit"},
    ),
    "exponential growth": (DOUBLING, 20.0, {"memory-limit"}),
    "one huge text": ("{{ 'x' * 10 ** 10 }}", 10.0, {"memory-limit"}),
    "many lists": ("{{ range(99999) | list * 10000 }}", 10.0, {"memory-limit"}),
    "huge output": (
        "{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
        10.0,
        {"output-too-large"},
    ),
    "attribute escape": ("{{ ''.__class__.__mro__ }}", 10.0, {"unsafe"}),
    "subscript escape": ("{{ ''['__class__']['__mro__'] }}", 10.0, {"unsafe"}),
    "filter escape": ("{{ ('' | attr('__class__'))() }}", 10.0, {"unsafe"}),
    "globals of a helper": ("{{ cycler.__init__.__globals__.os.system('true') }}", 10.0, {"unsafe"}),
    "globals of a function": ("{{ raise_exception.__globals__.sys.exit() }}", 10.0, {"unsafe"}),
    "format escape": ("{{ '{0.__class__.__mro__}'.format('') }}", 10.0, {"unsafe"}),
    "mapped format escape": ("{{ '{x.__class__.__mro__}'.format_map({'x': ''}) }}", 10.0, {"unsafe"}),
    "change of a message": ("{{ messages.append(1) }}", 10.0, {"unsafe"}),
    "recursion": ("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", 10.0, {"error"}),
    "deep nesting": ("{% if true %}" * 500 + "{% endif %}" * 500, 10.0, {"error", "syntax"}),
    "deep brackets": ("{{ " + "(" * 20000 + "1" + ")" * 20000 + " }}", 10.0, {"error", "memory-limit"}),
    "long range": ("{{ range(10 ** 9) | list }}", 10.0, {"error"}),
    "syntax": ("one\n{% if %}", 10.0, {"syntax"}),
    "unclosed": ("{% for a in b %}", 10.0, {"syntax"}),
    "another file": ("{% include '/etc/passwd' %}", 10.0, {"error"}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_render_when_a_template_is_hostile_then_it_fails_and_the_other_one_renders(name: str) -> None:
    text, time_limit_s, expected = HOSTILE[name]
    rendering = render(text, time_limit_s=time_limit_s)
    assert rendering.texts == (None,) * 3
    assert rendering.failures
    assert set(kinds(rendering)) <= expected


def test_render_when_one_conversation_loops_then_the_others_are_rendered() -> None:
    text = "{% if messages[0].content == 'loop' %}" + ENDLESS + "{% endif %}done"
    loop = RenderCase(messages=({"role": "user", "content": "loop"},))
    template = RenderTemplate(texts={"default": text})
    (rendering,) = render_templates([template], [HELLO, loop, HELLO], time_limit_s=2.0)
    assert rendering.texts == ("done", None, "done")
    assert [(item.case, item.kind) for item in rendering.failures] == [(1, "time-limit")]


def test_render_when_every_conversation_loops_then_the_template_is_given_up() -> None:
    rendering = render(ENDLESS, cases=40, time_limit_s=2.0)
    assert [failure.case for failure in rendering.failures] == [0, 1, None]
    assert "given up before conversation 3 of 40" in rendering.failures[-1].detail


def test_render_when_a_syntax_error_is_found_then_says_the_line_once() -> None:
    (failure,) = render("one\n{% if %}").failures
    assert failure.case is None
    assert "(line 2)" in failure.detail


def test_render_when_an_expression_fails_then_says_the_line() -> None:
    assert "(line 3)" in render("one\n\n{{ a.b.c }}").failures[0].detail


def test_render_when_text_is_no_unicode_then_it_is_written_out() -> None:
    assert render("{{ '\\ud800' }}").texts[0] == "\\ud800"


def test_render_when_there_is_a_template_for_tools_then_it_is_taken_with_tools() -> None:
    template = RenderTemplate(texts={"default": "plain", "tool_use": "tools"})
    with_tools = RenderCase(messages=HELLO.messages, tools=({"type": "function"},))
    (rendering,) = render_templates([template], [HELLO, with_tools], time_limit_s=10.0)
    assert rendering.texts == ("plain", "tools")


def test_render_when_no_template_is_the_default_then_says_which_there_are() -> None:
    template = RenderTemplate(texts={"rag": "x"})
    (rendering,) = render_templates([template], [HELLO], time_limit_s=10.0)
    assert "only rag" in rendering.failures[0].detail


def test_render_when_the_child_writes_nonsense_then_what_came_before_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = b'{"template":0,"case":0,"event":"begin"}\n{"template":0,"case":0,"event":"text","text":"a"}\n'
    for bad in (b'{"template":9,"case":0,"event":"text"}\n', b"\xff\n", b'{"template":0}\n', b"[]\n"):
        answers = iter([(good + bad, ("error", "ended early"))])
        monkeypatch.setattr(template_render, "_run_child", lambda *_, answers=answers: next(answers))
        (rendering,) = render_templates(
            [RenderTemplate(texts={"default": "a"})], [HELLO, HELLO], time_limit_s=5.0
        )
        assert rendering.texts == ("a", None)
        assert kinds(rendering) == ["error"]


def test_render_when_no_process_can_be_had_then_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    template = RenderTemplate(texts={"default": "a"})
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(RendererError, match="cannot be started"):
        render_templates([template], [HELLO], time_limit_s=5.0)
    monkeypatch.undo()
    monkeypatch.setattr(template_render, "_library_paths", list)
    with pytest.raises(RendererError, match="ended early"):
        render_templates([template], [HELLO], time_limit_s=5.0)


def test_render_when_secrets_are_in_the_environment_then_the_child_does_not_get_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, Any] = {}
    real = template_render.subprocess.Popen

    def popen(*arguments: Any, **options: Any) -> Any:
        seen.update(options["env"])
        return real(*arguments, **options)

    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setattr(
        template_render, "subprocess", types.SimpleNamespace(**vars(template_render.subprocess))
    )
    monkeypatch.setattr(template_render.subprocess, "Popen", popen)
    assert render("a").texts == ("a",) * 3
    assert "HF_TOKEN" not in seen


PIECES = st.sampled_from(
    [
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        " for x in messages ",
        " endfor ",
        " if ",
        " endif ",
        " set x = ",
        "messages",
        "[0]",
        ".content",
        "|tojson",
        "|",
        "generation",
        "endgeneration",
        "~",
        "'a'",
        "loop.index",
        "break",
        "\n",
        "é",
        "\x00",
        "-",
        "(",
        ")",
        "9**9",
        "'%s'",
        "_x",
    ]
)


@settings(max_examples=5, deadline=None)
@given(st.lists(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=40), min_size=20, max_size=40))
def test_render_when_templates_are_random_then_each_gives_a_text_or_a_failure(texts: list[str]) -> None:
    templates = [RenderTemplate(texts={"default": text}) for text in texts]
    renderings = render_templates(
        [*templates, RenderTemplate(texts={"default": PLAIN})], [HELLO], time_limit_s=60
    )
    assert renderings[-1].texts == (RENDERED,)
    for rendering in renderings:
        assert (rendering.texts[0] is None) == bool(rendering.failures)
