"""Acceptance of a pair's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.errors import UsageError
from dflash_doctor.tinypair.measure import Acceptance, acceptance_table, main, measure_pair

BUNDLED = bundled_fixtures() / "tiny_pair"


@given(st.lists(st.integers(0, 7), min_size=1))
def test_acceptance_length_when_any_steps_are_pooled_then_is_one_plus_the_positions(
    counts: list[int],
) -> None:
    item = Acceptance.of(counts, num_spec_tokens=7)
    assert item.num_drafts == len(counts)
    assert item.mean_acceptance_length == pytest.approx(1 + sum(item.acceptance_rate_per_position))
    assert list(item.acceptance_rate_per_position) == sorted(item.acceptance_rate_per_position, reverse=True)


def test_acceptance_table_when_printed_then_has_a_row_each() -> None:
    item = Acceptance.of([0, 2, 1], num_spec_tokens=2)
    assert acceptance_table({"overall": item}).splitlines()[2:] == ["| overall | 2.00 | 3 | 0.67 0.33 |"]


def test_measure_pair_when_there_are_no_prompts_then_says_what_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="measuring needs torch")
    pytest.importorskip("transformers", reason="measuring needs transformers")
    with pytest.raises(UsageError, match=r"prompts\.jsonl"):
        measure_pair(tmp_path)
    (tmp_path / "prompts.jsonl").write_text('{"id": "a"}\n')
    with pytest.raises(UsageError, match="line 1 lacks category or messages"):
        measure_pair(tmp_path)
    (tmp_path / "prompts.jsonl").write_text('{"category": "a", "messages": []}\n')
    with pytest.raises(UsageError, match=r"has no config\.json"):
        measure_pair(tmp_path)


def test_measure_command_when_the_folder_is_no_pair_then_exits_2_with_one_message(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="measuring needs torch")
    pytest.importorskip("transformers", reason="measuring needs transformers")
    result = CliRunner().invoke(main, [str(tmp_path)])
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert "prompts cannot be read" in result.output


def test_measure_command_when_given_the_bundled_pair_then_prints_the_table_of_its_readme() -> None:
    """The numbers in the README are those that its command prints (texts may part at a numeric tie)."""
    pytest.importorskip("torch", reason="measuring needs torch")
    pytest.importorskip("transformers", reason="measuring needs transformers")
    result = CliRunner().invoke(main, [str(BUNDLED)])
    assert result.exit_code == 0
    printed, written = rows(result.stdout), rows((BUNDLED / "README.md").read_text())
    assert set(printed) == {"overall", "math", "code", "chat", "json", "ramble"}
    for name, cells in printed.items():
        assert float(cells[0]) == pytest.approx(float(written[name][0]), rel=0.03), name
        assert int(cells[1]) == pytest.approx(int(written[name][1]), rel=0.03), name
    config = json.loads((BUNDLED / "draft" / "config.json").read_text())
    assert len(printed["overall"][2].split()) == config["block_size"] - 1


def rows(text: str) -> dict[str, list[str]]:
    """Rows of a table: first cell -> other cells."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {first: rest for first, *rest in lines if rest and rest[0][:1].isdigit()}
