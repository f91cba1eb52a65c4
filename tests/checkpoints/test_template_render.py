"""Templates render as Transformers renders them; hostile ones end in bounded time, memory and output."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from doctor_process import PAIR
from hypothesis import given, settings
from hypothesis import strategies as st
from template_styles import STYLES

from dflash_doctor.checkpoints import template_render
from dflash_doctor.checkpoints.template_battery import battery
from dflash_doctor.checkpoints.template_child import NOW
from dflash_doctor.checkpoints.template_render import Rendering

SPECIALS = {"bos_token": "<s>", "eos_token": "<|im_end|>"}


def rendered(template: str, *cases: dict[str, Any], limit_s: float = 2.0) -> list[dict[str, str]]:
    return Rendering(template, cases or [{}], limit_s=limit_s).answers()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    transformers = pytest.importorskip("transformers")
    found = transformers.PreTrainedTokenizerFast(tokenizer_file=str(PAIR / "target" / "tokenizer.json"))
    found.add_special_tokens({"bos_token": SPECIALS["bos_token"], "eos_token": SPECIALS["eos_token"]})
    return found


@pytest.mark.parametrize("style", STYLES)
def test_render_when_a_family_template_is_given_then_agrees_with_transformers(
    style: str, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.utils import chat_template_utils

    class Frozen(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return NOW

    monkeypatch.setattr(chat_template_utils, "datetime", Frozen)
    cases = battery()
    variables = [{**SPECIALS, "tools": None, "documents": None, **case["variables"]} for case in cases]
    answers = rendered(STYLES[style], *variables)
    num_refused = 0
    for case, answer in zip(cases, answers, strict=True):
        given_ = dict(case["variables"])
        messages = given_.pop("messages")
        try:
            expected = tokenizer.apply_chat_template(
                messages, chat_template=STYLES[style], tokenize=False, **given_
            )
        except Exception:
            assert "kind" in answer, case["name"]
            num_refused += 1
        else:
            assert answer.get("text") == expected, case["name"]
    assert (num_refused > 0) == (style in ("turns",))
    assert num_refused < len(cases)


LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
DOUBLING = (
    "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}"
)
NATIVE = "{{ (3 ** 300000000) % 7 }}"
"""One operation of native code: no signal of the child itself can end it."""
HOSTILE = {
    "an endless loop": (LOOPS, {"time-limit"}),
    "output without end": ("{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", {"output-too-large"}),
    "one huge text": ("{{ 'x' * 3000000000 }}", {"output-too-large"}),
    "exponential growth": (DOUBLING, {"output-too-large", "time-limit"}),
    "a range that is too long": ("{% for a in range(10000000) %}{% endfor %}", {"output-too-large", "error"}),
    "the class of a text": ("{{ ''.__class__.__mro__ }}", {"unsafe"}),
    "globals of a function": ("{{ cycler.__init__.__globals__ }}", {"unsafe"}),
    "a format string": ("{{ '{0.__class__.__init__.__globals__}'.format(x) }}", {"unsafe", "error"}),
    "a changed message": ("{% set _ = messages.append(1) %}", {"unsafe", "error"}),
    "a macro that calls itself": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", {"error"}),
    "a refusal": ("{{ raise_exception('no system role') }}", {"refused"}),
    "an undefined call": ("{{ nothing.at.all() }}", {"error"}),
    "a division by zero": ("{{ 1 / 0 }}", {"error"}),
    "an unknown tag": ("{% for x in y %}", {"syntax"}),
    "an include": ("{% include '/etc/passwd' %}", {"error"}),
    "deep nesting": ("{% if true %}" * 5000 + "{% endif %}" * 5000, {"syntax"}),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_render_when_a_template_is_hostile_then_it_ends_and_says_how(name: str) -> None:
    template, kinds = HOSTILE[name]
    answer = rendered(template, {"messages": [], "x": "y"}, limit_s=0.5)[0]
    assert answer.get("kind") in kinds, answer


def test_render_when_one_case_hangs_then_the_next_ones_are_still_rendered() -> None:
    template = "{% if hang %}" + LOOPS + "{% endif %}ok"
    answers = rendered(template, {"hang": True}, {"hang": False}, limit_s=0.3)
    assert answers[0]["kind"] == "time-limit"
    assert answers[1] == {"text": "ok"}


def test_render_when_native_code_hangs_then_the_child_is_killed_and_others_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(template_render, "_STARTUP_S", 3.0)
    hung = Rendering(NATIVE, [{}, {}], limit_s=0.3)
    well = Rendering("{{ x }}", [{"x": 1}], limit_s=0.3)
    assert well.answers() == [{"text": "1"}]
    assert [answer["kind"] for answer in hung.answers()] == ["time-limit"] * 2


@settings(max_examples=25)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_render_when_anything_is_given_then_every_case_has_an_answer(texts: list[str]) -> None:
    template = "".join(f"{{% if 1 %}}{text}" for text in texts)
    answers = rendered(template, {}, {"x": 1}, limit_s=1.0)
    assert len(answers) == 2
    assert all(("text" in answer) != ("kind" in answer) for answer in answers)
