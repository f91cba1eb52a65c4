"""The page tells what experiments showed: beside what, by how much, and what they rule out."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from chromium import Chromium
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_factory import (
    estimate,
    make_experiments,
    make_record,
    make_reference,
    make_trial,
    with_experiments,
)
from test_html_page import HOSTILE, page, summary_of

from dflash_doctor.records import ExperimentRecord, TrialRecord
from dflash_doctor.reports.wording import interval


def section_of(experiments: ExperimentRecord) -> str:
    """The section's markup."""
    text = page(with_experiments(make_record(), experiments))
    return text[text.index('id="experiments"') : text.index('id="checks"')]


def test_page_when_experiments_were_made_then_they_follow_the_causes() -> None:
    text = page(make_record(experiments=make_experiments()))
    places = [text.index(f'id="{name}"') for name in ("findings", "causes", "experiments", "checks")]
    assert places == sorted(places)
    assert '<a href="#experiments">Experiments <span class="count">7</span></a>' in text


def test_page_when_experiments_were_made_then_begins_with_reference_and_engine() -> None:
    reference = make_reference()
    seen = summary_of(section_of(make_experiments()))
    length = interval(reference.overall.mean_acceptance_length)
    assert f"acceptance length of {length} over 8 texts (cpu, float32, config read as vllm does)" in seen
    words = "20.0 % more steps [15.0, 25.0] than the reference; 75.0 % [70.0, 80.0] of its draft tokens"
    assert words in seen


def test_page_when_a_trial_explains_then_shows_before_after_effect_and_remedy() -> None:
    seen = summary_of(section_of(make_experiments()))
    first = seen[seen.index("target-layer-ids-shifted") : seen.index("mask-token-wrong")]
    for part in (
        "changed target_layer_ids [2, 4] -> [1, 3]",
        "effect 25.0 % fewer steps [20.0, 30.0] over 20 texts",
        "do set target_layer_ids = [1, 3]",
        "tokens per step before 3.00 [2.95, 3.05] after 4.00 [3.95, 4.05]",
    ):
        assert part in first, part
    assert "on the texts it was picked on" not in first


def test_page_when_trials_help_or_are_undecided_then_shows_them_after_what_explains() -> None:
    seen = summary_of(section_of(make_experiments()))
    places = [seen.index(part) for part in ("explains", "helps a little", "undecided", "Ruled out")]
    assert places == sorted(places)
    assert "3.0 % fewer steps [-2.0, 8.0] over 20 texts, on the texts it was picked on" in seen


def test_page_when_a_defect_is_reproduced_then_compares_shares() -> None:
    trial = make_trial("draft-context-key-norm", measure="equal-drafts", before=0.8, after=0.9, effect=0.1)
    text = section_of(make_experiments(trials=(trial,)))
    seen = summary_of(text)
    assert "draft tokens equal to the engine's before 80.0 % [75.0, 85.0] after 90.0 % [85.0, 95.0]" in seen
    assert "+10.0 points [+5.0, +15.0]" in seen
    assert re.findall(r'class="(before|after)" x="0" y="0" width="([\d.]+)"', text) == [
        ("before", "176.0"),
        ("after", "198.0"),
    ]


def test_page_when_causes_are_ruled_out_then_names_the_best_trial_of_each() -> None:
    text = section_of(make_experiments())
    seen = summary_of(text)
    listed = seen[seen.index("Ruled out") : seen.index("The best trial of each")]
    assert "rotary-theta draft-context-key-norm" in listed
    assert "causal-flag" not in listed
    assert 'title="rope_theta 1 -&gt; 3: 1.0 % more steps [-4.0, 6.0]' in text
    assert "rotary-theta 2 × rope_theta 1 -> 3: 1.0 % more steps" in seen
    assert "equal to the engine's 50.0 % -> 50.1 %" in seen


def test_page_when_something_was_not_tried_then_says_why_and_how_the_search_ended() -> None:
    seen = summary_of(section_of(make_experiments()))
    rest = seen[seen.index("Not tried") :]
    assert "rotary-layout: the config has no rotary settings one slot less: out of memory" in rest
    assert "7 experiments in 26.50 s of 300 s; ended: everything was tried." in rest


@pytest.mark.parametrize("experiments", [None, ExperimentRecord(), ExperimentRecord(spent_s=0.1)])
def test_page_when_there_were_no_experiments_then_shows_nothing(experiments: ExperimentRecord | None) -> None:
    text = page(make_record(experiments=experiments))
    assert "Causes by experiment" not in text
    assert "#experiments" not in text
    assert "reference drafter" not in summary_of(text)


def test_page_when_nothing_could_be_tried_then_only_says_why() -> None:
    seen = summary_of(section_of(ExperimentRecord(not_tried=("no weights here",))))
    assert "Not tried no weights here" in seen
    assert "reference" not in seen
    assert "experiments in" not in seen


def test_page_when_nothing_helped_then_says_so() -> None:
    seen = summary_of(section_of(make_experiments(trials=(make_trial(verdict="no effect", effect=0.0),))))
    assert "No experiment made anything better." in seen
    assert "Ruled out" in seen


def test_page_when_many_trials_explain_then_folds_the_later_ones() -> None:
    text = section_of(make_experiments(trials=tuple(make_trial(f"cause-{i}") for i in range(9))))
    assert "<summary>4 more</summary>" in text
    assert text.index("cause-4") < text.index("<summary>4 more") < text.index("cause-5")


def test_page_when_there_is_a_reference_then_curve_and_tables_show_it() -> None:
    text = page(make_record(experiments=make_experiments()))
    plain = page(make_record())
    assert 'class="ideal"' in text
    assert "the reference drafter, of all steps" in text
    assert re.search(r'aria-label="Acceptance rate by draft position[^"]*Reference: 0: ', text)
    assert summary_of(text).count("reference drafts accepted") == 2
    assert 'class="ideal"' not in plain
    assert "reference, of all steps" not in plain
    reference = make_reference()
    length = f"{reference.by_category['math'].mean_acceptance_length.value:.2f}"
    row = text[text.index('<th scope="row" class="left name">math') :]
    assert f'<td class="nowrap">{length}</td>' in row[: row.index("</tr>")]


def test_page_when_the_reference_lacks_a_category_then_says_no_data() -> None:
    reference = make_reference(by_category={"math": make_reference().by_category["math"]})
    text = page(make_record(experiments=make_experiments(reference=reference)))
    row = text[text.index('<th scope="row" class="left name">code') :]
    assert '<td class="nowrap">no data</td>' in row[: row.index("</tr>")]


def hostile_experiments(text: str) -> ExperimentRecord:
    """`text` in every field that a config, a checkpoint or an error can fill."""

    def spoil(trial: TrialRecord) -> TrialRecord:
        named: dict[str, Any] = dict.fromkeys(("name", "kind", "cause", "change", "remedy"), text)
        failed = text if trial.failed is not None else None
        return msgspec.structs.replace(trial, **named, failed=failed)

    made = make_experiments()
    trials = [spoil(trial) for trial in made.trials]
    kept = make_trial("kept", "no effect", change=text)
    known = make_reference()
    reference = msgspec.structs.replace(
        known, reader=text, device=text, dtype=text, by_category={text: known.overall}
    )
    return msgspec.structs.replace(
        made, reference=reference, trials=(*trials, kept), not_tried=(text,), stopped=text
    )


def test_page_when_experiments_are_hostile_then_everything_is_escaped() -> None:
    text = section_of(hostile_experiments(HOSTILE))
    assert "<img" not in text
    assert "<script" not in text
    assert not re.search("[\x00\u202e]", text)
    assert "{{7*7}}" in text
    assert not re.search(r"""title="[^"]*[<>]""", text)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.sampled_from("<>&\"'={}% ax/!-\u202e\x00\ud800"), min_size=1, max_size=30))
def test_page_when_words_are_any_text_then_brings_no_tag_or_attribute(words: str) -> None:
    tags = re.compile(r"<[a-z/!][^>]*>", re.IGNORECASE)
    texts = (section_of(hostile_experiments(filling)) for filling in (words, "harmless"))
    found, expected = ([re.sub(r'title="[^"]*"', "title", tag) for tag in tags.findall(t)] for t in texts)
    assert found == expected


def test_page_when_numbers_are_missing_then_says_no_data() -> None:
    nothing = make_trial(verdict="undecided", before=None, after=None, effect=None)
    reference = make_reference(engine_excess_steps=estimate(None), equal_drafts=estimate(None))
    seen = summary_of(section_of(make_experiments(trials=(nothing,), reference=reference)))
    assert "how many steps more the engine takes is not known" in seen
    assert "before no data after no data" in seen


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 420])
def test_page_when_experiments_are_shown_then_bars_compare_and_nothing_overflows(
    chromium: Chromium, width: int
) -> None:
    experiments = make_experiments(trials=(make_trial("w" * 300, change="w" * 300, remedy="w" * 300),))
    chromium.open(page(with_experiments(make_record(), experiments)), width=width)
    shown = chromium.answer(
        """
        const width = (name) => document.querySelector("#experiments ." + name).getBoundingClientRect().width;
        return {
          page: document.documentElement.scrollWidth,
          ratio: width("before") / width("after"),
          words: document.querySelector("#experiments .do").getBoundingClientRect().width,
          colours: ["before", "after", "track"].map(
            (name) => getComputedStyle(document.querySelector("#experiments ." + name)).fill),
        };
        """
    )
    assert shown["page"] == width
    assert shown["ratio"] == pytest.approx(0.75, abs=0.01)
    assert shown["words"] > 150
    assert len(set(shown["colours"])) == 3
