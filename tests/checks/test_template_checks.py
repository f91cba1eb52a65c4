"""The checks of chat templates: each fires on its bad thing only, and says what it could not look at."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from evidence_factory import make_evidence
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.checkpoints.template_parity import compare_templates
from dflash_doctor.checks.base import Case, Outcome
from dflash_doctor.checks.catalog import entry_of, load_judge
from dflash_doctor.checks.quoted_text import quoted, shown
from dflash_doctor.contract.evidence import ContractEvidence
from dflash_doctor.contract.templates import (
    TemplateComparison,
    TemplateDifference,
    TemplateFacts,
    TemplateFailure,
)
from dflash_doctor.records import Metrics

CODES = ("DF203", "DF204", "DF205")
OPEN = "<|im_start|>assistant\n"
EMPTY_BLOCK = OPEN + "<think>\n\n</think>\n\n"
FACTS = TemplateFacts(
    file="chat_template.jinja",
    names=("default",),
    sha256="00",
    num_characters=400,
    has_thinking_switch=True,
    default_thinking="on",
    generation_prompts={"off": EMPTY_BLOCK, "on": OPEN, "template": OPEN},
)
NO_SWITCH = msgspec.structs.replace(
    FACTS,
    has_thinking_switch=False,
    default_thinking=None,
    generation_prompts={"off": OPEN, "on": OPEN, "template": OPEN},
)
SAME = TemplateComparison(target=FACTS, draft=FACTS, is_identical=True, num_cases=57)
DIFFERENCE = TemplateDifference(
    case="system",
    thinking="off",
    char_index=34,
    target_excerpt="<|im_end|>\n",
    draft_excerpt="<|im_end|>\u200b ",
    token_index=7,
    target_id=198,
    draft_id=None,
)
NONE_HERE = TemplateFacts(problem="the folder has no chat template")


def changed(seen: TemplateComparison = SAME, **changes: Any) -> TemplateComparison:
    return msgspec.structs.replace(seen, **changes)


def failure(
    kind: Any = "error", role: Any = "target", case: str = "one-turn", **changes: Any
) -> TemplateFailure:
    fields: dict[str, Any] = {"role": role, "case": case, "thinking": "off", "kind": kind, "detail": "why"}
    return TemplateFailure(**(fields | changes))


def judge(code: str, seen: TemplateComparison | None, thinking: str = "off") -> Outcome:
    contract = ContractEvidence(served_by="vllm", thinking=thinking, templates=seen)
    evidence = msgspec.structs.replace(make_evidence(), contract=contract)
    return judge_evidence(code, evidence)


def judge_evidence(code: str, evidence: Any) -> Outcome:
    entry = entry_of(code)
    assert entry is not None
    assert entry.static
    case = Case(evidence=evidence, metrics=Metrics(), num_speculative_tokens=7, temperature=0.0)
    return load_judge(entry)(case)


@pytest.mark.parametrize("code", CODES)
def test_check_when_nobody_looked_then_it_is_skipped_and_says_so(code: str) -> None:
    for outcome in (judge(code, None), judge_evidence(code, make_evidence(contract=None))):
        assert outcome.verdict == "skipped"
        assert outcome.reason.startswith("not checked: ")


@pytest.mark.parametrize("code", CODES)
def test_check_when_it_is_the_tiny_pair_then_there_is_no_finding(code: str) -> None:
    pair = bundled_fixtures() / "tiny_pair"
    outcome = judge(code, compare_templates(pair / "target", pair / "draft"))
    assert outcome.findings == ()
    assert outcome.verdict == "passed"


@pytest.mark.parametrize("code", CODES)
def test_check_when_the_drafter_brings_no_template_then_nothing_is_found(code: str) -> None:
    outcome = judge(
        code, changed(draft=NONE_HERE, is_identical=None, failures=(failure("missing", "draft", ""),))
    )
    assert outcome.findings == ()
    assert "not checked: " in outcome.reason


# DF203


def test_differs_when_both_render_the_same_then_passes() -> None:
    outcome = judge("DF203", changed(is_identical=False))
    assert (outcome.verdict, outcome.findings) == ("passed", ())
    assert "all 57 cases" in outcome.reason


def test_differs_when_the_generation_prompt_differs_in_the_mode_asked_for_then_fails() -> None:
    draft = msgspec.structs.replace(FACTS, generation_prompts={**FACTS.generation_prompts, "off": OPEN})
    seen = changed(draft=draft, is_identical=False, num_differing=16, differing_cases=("system",))
    seen = changed(seen, differences=(DIFFERENCE,))
    outcome = judge("DF203", seen)
    assert outcome.verdict == "failed"
    (finding,) = outcome.findings
    assert finding.causes == ("chat-template-mismatch",)
    assert r"the target's adds '<|im_start|>assistant\n<think>\n\n</think>\n\n'" in finding.observed
    assert r"the drafter's '<|im_start|>assistant\n'" in finding.observed
    assert finding.numbers == {"num_differing": 16, "num_renderings": 57}
    for thinking in ("on", "template"):
        outcome = judge("DF203", seen, thinking)
        assert outcome.verdict == "passed"
        assert [item.severity for item in outcome.findings] == ["warning"]


def test_differs_when_another_part_differs_then_warns_and_shows_what_cannot_be_seen() -> None:
    cases = ("system", "tools", "unicode", "long", "turns", "markup")
    seen = changed(is_identical=False, num_differing=20, differing_cases=cases, differences=(DIFFERENCE,))
    outcome = judge("DF203", seen)
    assert outcome.verdict == "passed"
    (finding,) = outcome.findings
    assert finding.severity == "warning"
    assert "20 of 57 renderings differ (system, tools, unicode, long and 2 more)" in finding.observed
    assert r"target '<|im_end|>\n', drafter '<|im_end|>\u200b '" in finding.observed
    assert "at character 34" in finding.observed
    assert "(token 7: id 198 against the end)" in finding.observed


def test_differs_when_the_mode_asked_for_differs_as_well_then_shows_that_one() -> None:
    other = msgspec.structs.replace(DIFFERENCE, thinking="on", case="tools", token_index=None)
    seen = changed(
        is_identical=False, num_differing=2, differing_cases=("system",), differences=(DIFFERENCE, other)
    )
    observed = judge("DF203", seen, "on").findings[0].observed
    assert "first in tools, thinking on" in observed
    assert "(token" not in observed


def test_differs_when_one_side_refuses_what_the_other_renders_then_warns() -> None:
    refusals = (failure("refused", "draft", "system"), failure("refused", "target", "tools"))
    (finding,) = judge("DF203", changed(is_identical=False, failures=refusals)).findings
    assert "only one of the two renders system, tools" in finding.observed
    both = (failure("refused", "draft", "system"), failure("refused", "target", "system"))
    assert judge("DF203", changed(is_identical=False, failures=both)).findings == ()


@pytest.mark.parametrize(
    "seen",
    [
        changed(problem="jinja2 is not installed"),
        changed(draft=None),
        changed(target=NONE_HERE, is_identical=None),
        changed(draft=TemplateFacts(file="chat_template.jinja", problem="not UTF-8"), is_identical=None),
        changed(is_identical=False, num_cases=0),
    ],
    ids=["nothing", "no-draft", "no-target", "unreadable", "none-rendered"],
)
def test_differs_when_there_are_not_two_renderings_then_it_is_not_checked(seen: TemplateComparison) -> None:
    outcome = judge("DF203", seen)
    assert outcome.verdict == "skipped"
    assert outcome.reason.startswith("not checked: ")


def test_differs_when_a_generation_prompt_is_unknown_then_says_so() -> None:
    draft = msgspec.structs.replace(FACTS, generation_prompts={"on": OPEN})
    outcome = judge("DF203", changed(draft=draft, is_identical=False))
    assert outcome.findings == ()
    assert "not checked: the generation prompt with thinking off" in outcome.reason


# DF204


@pytest.mark.parametrize(
    "kind",
    ["unreadable", "syntax", "time-limit", "memory-limit", "output-too-large", "unsafe", "error", "refused"],
)
def test_fails_when_the_target_does_not_render_then_fails_and_for_the_drafter_warns(kind: str) -> None:
    whole = failure(kind, case="", thinking=None, detail="line 3")
    outcome = judge("DF204", changed(failures=(whole,)))
    assert outcome.verdict == "failed"
    (finding,) = outcome.findings
    assert finding.message.startswith("the target's chat template ")
    assert finding.observed == "chat_template.jinja: line 3"
    outcome = judge("DF204", changed(failures=(msgspec.structs.replace(whole, role="draft"),)))
    assert outcome.verdict == "passed"
    assert [item.severity for item in outcome.findings] == ["warning"]


def test_fails_when_only_some_conversations_are_refused_then_passes_and_says_which() -> None:
    refusals = tuple(failure("refused", case=name, detail="no\nsystem") for name in ("system", "tools"))
    outcome = judge("DF204", changed(failures=refusals))
    assert (outcome.verdict, outcome.findings) == ("passed", ())
    assert r"it refuses system, tools ('no\nsystem')" in outcome.reason


def test_fails_when_only_a_special_conversation_breaks_then_warns() -> None:
    broken = tuple(failure(case=name) for name in ("tools", "tool-result", "two-tool-calls"))
    (finding,) = judge("DF204", changed(failures=broken)).findings
    assert finding.severity == "warning"
    assert finding.message == "the target's chat template fails on tools"
    assert finding.observed == "chat_template.jinja: why; in 3 conversations (tools, tool-result, …)"
    drafts = tuple(msgspec.structs.replace(item, role="draft") for item in broken)
    assert judge("DF204", changed(failures=drafts)).findings[0].severity == "info"


def test_fails_when_several_things_go_wrong_then_each_is_a_finding() -> None:
    outcome = judge("DF204", changed(failures=(failure("time-limit"), failure("unsafe", case="tools"))))
    assert len(outcome.findings) == 2
    assert outcome.verdict == "failed"


def test_fails_when_the_target_has_none_then_it_is_not_checked() -> None:
    seen = TemplateComparison(target=NONE_HERE, failures=(failure("missing", case=""),))
    outcome = judge("DF204", seen)
    assert outcome.verdict == "skipped"
    assert outcome.reason == "not checked: the target has no chat template"
    assert judge("DF204", changed(problem="no jinja2")).verdict == "skipped"


def test_fails_when_all_renders_then_passes() -> None:
    outcome = judge("DF204", SAME)
    assert (outcome.verdict, outcome.findings) == ("passed", ())


# DF205

OFF_IN_CONFIG = {
    "draft_thinking": "off",
    "draft_thinking_source": "config.json: dflash_config.thinking = false",
}
OFF_IN_CARD = {"draft_thinking": "off", "draft_thinking_source": "README.md: Trained on non-thinking data."}


@pytest.mark.parametrize("thinking", ["on", "template"])
def test_thinking_when_it_is_on_and_the_config_says_without_then_fails(thinking: str) -> None:
    outcome = judge("DF205", changed(**OFF_IN_CONFIG), thinking)
    assert outcome.verdict == "failed"
    (finding,) = outcome.findings
    assert finding.message == "thinking is on, and the drafter was trained without it"
    assert finding.edit == "--thinking off"
    assert finding.causes == ("thinking-mode-mismatch",)
    assert (finding.where.file, finding.where.field) == ("config.json", "dflash_config.thinking")


def test_thinking_when_the_drafter_was_trained_with_it_and_it_is_off_then_fails() -> None:
    seen = changed(draft_thinking="on", draft_thinking_source="config.json: thinking = true")
    (finding,) = judge("DF205", seen, "off").findings
    assert (finding.severity, finding.edit) == ("error", "--thinking on")


def test_thinking_when_only_the_card_says_it_then_warns() -> None:
    outcome = judge("DF205", changed(**OFF_IN_CARD), "on")
    assert outcome.verdict == "passed"
    (finding,) = outcome.findings
    assert finding.severity == "warning"
    assert "Trained on non-thinking data." in finding.observed
    assert (finding.where.file, finding.where.field) == ("README.md", None)


def test_thinking_when_the_modes_agree_then_passes() -> None:
    outcome = judge("DF205", changed(**OFF_IN_CARD), "off")
    assert (outcome.verdict, outcome.findings) == ("passed", ())
    by_default = msgspec.structs.replace(FACTS, default_thinking="off")
    assert judge("DF205", changed(target=by_default, **OFF_IN_CONFIG), "template").findings == ()


def test_thinking_when_the_drafter_does_not_say_then_it_is_not_checked() -> None:
    outcome = judge("DF205", SAME, "on")
    assert outcome.verdict == "skipped"
    assert outcome.reason == "not checked: the drafter does not say whether it was trained with thinking"


@pytest.mark.parametrize("thinking", ["off", "on"])
def test_thinking_when_the_template_has_no_switch_then_it_is_noted(thinking: str) -> None:
    outcome = judge("DF205", changed(target=NO_SWITCH), thinking)
    assert outcome.verdict == "skipped", "the note says all there is: nothing was compared"
    (finding,) = outcome.findings
    assert (finding.severity, finding.edit) == ("info", "--thinking template")
    assert "no such switch" in finding.message
    assert "not checked: " in outcome.reason
    assert judge("DF205", changed(target=NO_SWITCH), "template").findings == ()


def test_thinking_when_another_variable_is_the_switch_then_it_is_named() -> None:
    facts = msgspec.structs.replace(NO_SWITCH, other_thinking_switch="thinking")
    (finding,) = judge("DF205", changed(target=facts), "on").findings
    assert "a variable called thinking does" in finding.observed


def test_thinking_when_the_template_always_thinks_then_that_is_the_mode_in_force() -> None:
    always = msgspec.structs.replace(NO_SWITCH, generation_prompts={"template": OPEN + "<think>\n"})
    assert judge("DF205", changed(target=always), "on").findings == ()
    outcome = judge("DF205", changed(target=always, **OFF_IN_CONFIG), "off")
    assert [item.severity for item in outcome.findings] == ["info", "error"]
    assert outcome.findings[1].edit is None
    never = msgspec.structs.replace(NO_SWITCH, generation_prompts={"template": EMPTY_BLOCK})
    assert judge("DF205", changed(target=never, **OFF_IN_CONFIG), "off").findings == ()


# Text


@given(st.text())
def test_shown_when_text_has_anything_in_it_then_every_character_can_be_seen(text: str) -> None:
    assert shown(text, max_characters=10_000).isprintable()
    assert quoted(text) == f"'{shown(text)}'"
    assert len(shown(text)) <= 121


def test_shown_when_characters_are_invisible_then_they_are_written_as_python_does() -> None:
    assert shown("a\tb\n\x07\u00a0\u202e\U000e0001 é") == r"a\tb\n\x07\xa0\u202e\U000e0001 é"
