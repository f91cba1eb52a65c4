"""The checks of tokenizer and template: each fires on its own fault, and says what could not be looked at."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from doctor_process import PAIR

from dflash_doctor.inspection import InspectionResult, inspect
from dflash_doctor.records import CheckRecord, Finding
from dflash_doctor.settings import Settings


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """A copy of the bundled pair."""
    for name in ("target", "draft"):
        shutil.copytree(PAIR / name, tmp_path / name)
    return tmp_path


def judged(folder: Path, thinking: str = "off") -> InspectionResult:
    settings = Settings(target=str(folder / "target"), draft=str(folder / "draft"), thinking=thinking)
    return inspect(settings, environ={})


def check(result: InspectionResult, code: str) -> CheckRecord:
    return next(item for item in result.record.checks if item.code == code)


def loud(result: InspectionResult) -> list[Finding]:
    return [item for entry in result.record.checks for item in entry.findings if item.severity != "info"]


def edit_tokenizer(folder: Path, **changes: object) -> None:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_token_ids_when_two_are_swapped_then_df201_and_nothing_else_fails(pair: Path) -> None:
    path = pair / "draft" / "tokenizer.json"
    document = json.loads(path.read_text())
    names = {number: text for text, number in document["model"]["vocab"].items()}
    document["model"]["vocab"] |= {names[400]: 401, names[401]: 400}
    path.write_text(json.dumps(document))
    found = loud(judged(pair))
    assert [item.code for item in found] == ["DF201"]
    assert found[0].observed.startswith("2 of 1,024 ids conflict: 400 is ")
    assert found[0].causes[0] == "tokenizer-conflict"


def test_tokenization_when_rules_differ_then_df202_shows_the_smallest_text(pair: Path) -> None:
    edit_tokenizer(pair / "draft", normalizer={"type": "Lowercase"})
    found = loud(judged(pair))
    assert [(item.code, item.severity) for item in found] == [("DF202", "warning")]
    assert found[0].observed == (
        "'H' is ['H'] (ids 45) for the target and ['h'] (ids 77) for the drafter; they differ in normalizer"
    )


def test_tokenizers_when_one_is_missing_then_says_not_checked(pair: Path) -> None:
    (pair / "draft" / "tokenizer.json").unlink()
    result = judged(pair)
    assert check(result, "DF201").reason == "not checked: the drafter has no tokenizer files"
    assert check(result, "DF202").verdict == "skipped"
    (pair / "target" / "tokenizer.json").unlink()
    assert "the target has no tokenizer files" in check(judged(pair), "DF201").reason
    assert "what the target's tokenizer says" in check(judged(pair), "DF131").reason


@pytest.mark.parametrize(
    ("mask", "message", "severity"),
    [
        (2, "the mask token has another part to play", "error"),
        (400, "the mask token occurs in ordinary text", "warning"),
    ],
)
def test_mask_when_the_tokenizer_gives_it_another_meaning_then_df131_says_which(
    mask: int, message: str, severity: str, pair: Path
) -> None:
    path = pair / "draft" / "config.json"
    config = json.loads(path.read_text())
    config["dflash_config"]["mask_token_id"] = mask
    path.write_text(json.dumps(config, indent=1))
    found = loud(judged(pair))
    assert [(item.code, item.message, item.severity) for item in found] == [("DF131", message, severity)]
    assert found[0].where.line is not None


def test_templates_when_the_empty_block_is_missing_then_df203_shows_both_prompts(pair: Path) -> None:
    path = pair / "draft" / "chat_template.jinja"
    path.write_text(path.read_text().replace("<think>\\n\\n</think>\\n\\n", ""))
    found = loud(judged(pair))
    assert [(item.code, item.severity) for item in found] == [("DF203", "error")]
    assert "thinking off: the target's adds " in found[0].observed
    assert "</think>" in found[0].observed
    assert loud(judged(pair, thinking="on"))[0].severity == "warning", "only other modes differ"


def test_templates_when_one_does_not_compile_then_df204_names_the_line(pair: Path) -> None:
    (pair / "target" / "chat_template.jinja").write_text("{% for x in messages %}\n{{ x")
    result = judged(pair)
    found = loud(result)
    assert [item.code for item in found] == ["DF204"]
    assert "line 2" in found[0].observed
    assert check(result, "DF203").reason.startswith("not checked")


def test_templates_when_one_loops_then_the_other_checks_still_run(pair: Path) -> None:
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    (pair / "draft" / "chat_template.jinja").write_text(
        "{% if add_generation_prompt %}" + loop + "{% endif %}x"
    )
    result = judged(pair)
    found = check(result, "DF204").findings
    assert [(item.severity, item.message) for item in found] == [
        ("warning", "the drafter's chat template does not stop")
    ]
    assert check(result, "DF118").verdict == "passed"


def test_thinking_when_the_card_says_without_and_it_is_on_then_df205_gives_the_flag(pair: Path) -> None:
    (pair / "draft" / "README.md").write_text("Trained on non-thinking data only.\n")
    assert loud(judged(pair)) == []
    assert check(judged(pair), "DF205").reason.startswith(
        "thinking is off, as the drafter says it was trained"
    )
    found = loud(judged(pair, thinking="on"))
    assert [(item.code, item.edit) for item in found] == [("DF205", "--thinking off")]
    assert found[0].causes == ("thinking-mode-mismatch",)
    assert "README.md: Trained on" in found[0].observed


def test_thinking_when_the_template_decides_then_its_own_mode_counts(pair: Path) -> None:
    (pair / "draft" / "README.md").write_text("Trained on non-thinking data only.\n")
    found = loud(judged(pair, thinking="template"))
    assert [item.code for item in found] == ["DF205"], "by itself the template thinks"


def test_thinking_when_there_is_no_switch_then_a_note_says_so(pair: Path) -> None:
    for name in ("target", "draft"):
        (pair / name / "chat_template.jinja").write_text(
            "{% for m in messages %}{{ m.content }}{% endfor %}>"
        )
    result = judged(pair, thinking="on")
    assert loud(result) == []
    assert check(result, "DF205").findings[0].edit == "--thinking template"
