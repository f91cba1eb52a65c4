"""The page is whole and safe, and its summary needs no script."""

from __future__ import annotations

import html
import re

import msgspec
import pytest
from evidence_factory import make_evidence, make_generation, make_request, without_steps
from record_factory import make_record

from dflash_doctor.evidence import (
    CaptureReport,
    Divergence,
    EngineFacts,
    Evidence,
    ThinkingTokens,
    VerifyStep,
)
from dflash_doctor.records import Finding, Metrics, RunRecord, Where
from dflash_doctor.reports.html_page import render
from dflash_doctor.reports.page_view import FACT_GROUPS
from dflash_doctor.reports.wording import DEFINITIONS

HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>{{7*7}}\u202e\x00\ud800'\"&"


def page(record: RunRecord, evidence: Evidence | None = None) -> str:
    return render(record, evidence).decode()


def summary_of(text: str) -> str:
    """What a reader without JavaScript sees: words, without markup."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def hostile_evidence() -> Evidence:
    requests = [
        msgspec.structs.replace(
            make_request(f"r{i}", accepted=(3, 0, 7)), prompt_id=f"{HOSTILE}{i}", category=HOSTILE
        )
        for i in range(4)
    ]
    evidence = make_evidence(
        speculative=make_generation(requests),
        target_only=make_generation([without_steps(trace) for trace in requests], arm="target-only"),
        token_texts=dict.fromkeys(range(1000), HOSTILE),
    )
    part = Divergence(
        prompt_id=f"{HOSTILE}0",
        category=HOSTILE,
        index=2,
        target_id=11,
        speculative_id=12,
        target_logprob=-0.1,
        speculative_logprob=-7.0,
    )
    return msgspec.structs.replace(evidence, divergences=(part,))


def hostile_record(evidence: Evidence) -> RunRecord:
    """Hostile text in every field that a file, a model or a server can fill."""
    finding = Finding(
        code=HOSTILE,
        severity="error",
        message=HOSTILE,
        observed=HOSTILE,
        expected=HOSTILE,
        remedy=HOSTILE,
        where=Where(file=HOSTILE, field=HOSTILE, prompt_id=HOSTILE, category=HOSTILE),
        causes=(HOSTILE,),
    )
    record = make_record(evidence=evidence)
    check = msgspec.structs.replace(
        record.checks[0],
        verdict="failed",
        code=HOSTILE,
        name=HOSTILE,
        reason=HOSTILE,
        findings=(finding,),
    )
    facts = EngineFacts(
        name=HOSTILE,
        version=HOSTILE,
        dtype=HOSTILE,
        target_attention=(HOSTILE,),
        lossy_settings=(HOSTILE,),
        live={HOSTILE: {HOSTILE: [HOSTILE]}},
    )
    return msgspec.structs.replace(
        record,
        verdict="failed",
        summary=HOSTILE,
        incomplete=HOSTILE,
        run_id=HOSTILE,
        started_at=HOSTILE,
        engine=facts,
        environment={HOSTILE: HOSTILE},
        settings={HOSTILE: HOSTILE},
        setting_origins={HOSTILE: HOSTILE},
        pair=msgspec.structs.replace(record.pair, target=HOSTILE, draft=HOSTILE, method=HOSTILE),
        checks=(check,),
    )


def test_render_when_healthy_then_summary_needs_no_script() -> None:
    text = page(make_record(), make_evidence())
    seen = summary_of(text)
    for part in (
        "PASSED",
        "Healthy: 8 of 8",
        "To do Nothing.",
        "Where drafts break",
        "How far steps get",
        "By category",
        "By context length",
        "By output segment",
        "What the target thought of the refused token",
        "Outputs with speculation against the target alone",
        "not interleaved: for orientation",
        "DF301",
        "Live engine",
        "no data",
        "derived from steps",
    ):
        assert part in seen, part
    assert text.count("<svg") == 8


def test_render_when_failed_then_verdict_and_what_to_do_come_first() -> None:
    seen = summary_of(page(make_record(accept=0.0)))
    places = [
        seen.index(part)
        for part in ("FAILED", "Almost no draft token", "Do first", "Findings", "Causes", "Checks")
    ]
    assert places == sorted(places)
    assert "draft-weights-not-loaded" in seen


@pytest.mark.parametrize("name", DEFINITIONS)
def test_render_when_a_metric_is_defined_then_the_page_says_what_it_means(name: str) -> None:
    text = page(make_record(), make_evidence())
    assert f'id="m-{name}"' in text
    assert html.escape(DEFINITIONS[name], quote=False) in text.replace("&#39;", "'")


def test_render_when_it_links_inside_the_page_then_every_target_is_there() -> None:
    text = page(make_record(accept=0.0), make_evidence(accept=0.0))
    links = {link for link in re.findall(r'href="#([^"]+)"', text) if not link.startswith("sample=")}
    assert links
    assert links <= set(re.findall(r'id="([^"]+)"', text))


def test_render_when_written_then_asks_nothing_of_the_network() -> None:
    text = page(make_record(), make_evidence())
    assert not re.search(r"""(?:src|href|url\()\s*=?\s*["']?(?:https?:|//)""", text)
    assert "default-src 'none'" in text
    assert "unsafe-inline" not in text
    assert " style=" not in re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)


def test_render_when_written_then_assets_are_small() -> None:
    text = page(make_record(), make_evidence())
    without_data = re.sub(r'(id="samples-data">)[^<]*', r"\1", text)
    assert len(without_data.encode()) < 300_000


def test_render_when_texts_are_hostile_then_everything_is_escaped() -> None:
    evidence = hostile_evidence()
    text = page(hostile_record(evidence), evidence)
    assert "<img" not in text
    assert "<script>alert" not in text
    assert text.count("</script>") == text.count("<script")
    assert "{{7*7}}" in text
    assert not re.search("[\x00\u202e]", text)
    assert "&lt;U+202E&gt;&lt;U+0000&gt;&lt;U+D800&gt;" in text


def test_render_when_a_text_is_very_long_then_is_cut() -> None:
    text = page(make_record(changes={"summary": "w" * 100_000}), None)
    assert "w" * 400 + "…" in text
    assert "w" * 401 not in text


def test_render_when_rendered_twice_then_gives_the_same_bytes() -> None:
    record, evidence = make_record(), make_evidence()
    assert render(record, evidence) == render(record, evidence)


def test_render_when_nothing_was_learnt_then_says_no_data() -> None:
    reason = "the engine did not start\n  seen: out of memory\n  do:   use a smaller batch"
    record = make_record(
        evidence=Evidence(),
        changes={
            "incomplete": reason,
            "workload": None,
            "verdict": "errored",
            "engine": None,
            "metrics": Metrics(),
            "checks": (),
        },
    )
    seen = summary_of(page(record, Evidence()))
    assert "The engine did not start Do first use a smaller batch" in seen
    assert "Seen out of memory The run stopped early." in seen
    assert seen.count("no data") >= 5
    assert 'id="samples-data"' not in page(record, Evidence())


def test_render_when_the_trace_file_is_not_at_hand_then_says_so() -> None:
    seen = summary_of(page(make_record(), None))
    assert "no data: written without the trace file" in seen
    assert "By category" in seen


def test_render_when_acceptance_is_simulated_then_warns_before_any_number() -> None:
    evidence = make_evidence()
    facts = msgspec.structs.replace(evidence.facts, lossy_settings=("rejection_sample_method=synthetic",))
    seen = summary_of(page(make_record(evidence=msgspec.structs.replace(evidence, facts=facts)), evidence))
    assert seen.index("lossy or simulated: rejection_sample_method=synthetic") < seen.index("drafts accepted")


def test_render_when_a_finding_repeats_then_is_said_once_with_its_cases() -> None:
    record = make_record()
    findings = tuple(
        Finding(code="DF301", severity="error", message="the output differs", observed=f"case {index}")
        for index in range(9)
    )
    check = msgspec.structs.replace(record.checks[1], verdict="failed", findings=findings)
    seen = summary_of(page(msgspec.structs.replace(record, checks=(check,)), None))
    assert seen.count("the output differs 9 times") == 1
    assert "5 more" in seen
    assert "case 8" in seen


def test_render_when_the_engine_gives_counts_only_then_names_the_source() -> None:
    requests = [make_request(f"r{i}", steps=None) for i in range(4)]
    generation = make_generation(requests, capture=CaptureReport(level="request", reason="no hook here"))
    evidence = make_evidence(speculative=generation)
    seen = summary_of(page(make_record(evidence=evidence), evidence))
    assert "reported by the engine" in seen
    assert "By draft position: no data" in seen
    assert "no hook here" in seen


def test_render_when_outputs_part_then_lists_faults_first() -> None:
    evidence = make_evidence()
    gaps = {"r000": 0.01, "r001": None, "r002": 9.0}
    parts = tuple(
        Divergence(
            prompt_id=name,
            category="math",
            index=3,
            target_id=None,
            speculative_id=12,
            target_logprob=None if gap is None else -0.1,
            speculative_logprob=None if gap is None else -0.1 - gap,
        )
        for name, gap in gaps.items()
    )
    evidence = msgspec.structs.replace(evidence, divergences=parts)
    seen = summary_of(page(make_record(evidence=evidence), evidence))
    table = seen[seen.index("parts at output token") :]
    places = [table.index(part) for part in ("r002 3", "fault", "r001 3", "unknown unknown", "r000 3", "tie")]
    assert places == sorted(places)
    assert "end of text p 90 % t12 p 0.011 % 9.000" in table
    assert "end of text p no data t12 p no data no data" in table


def test_render_when_there_is_a_thinking_block_then_compares_inside_and_outside() -> None:
    request = make_request("r0", accepted=(3, 0, 7, 2))
    inside = msgspec.structs.replace(request, prompt_ids=(*request.prompt_ids[:-1], 4))
    steps = tuple(VerifyStep(num_drafted=7, num_accepted=1, position=11 + 2 * index) for index in range(4))
    after = msgspec.structs.replace(inside, output_ids=(9, 9, 9, 9, 5, 9, 9, 9, 9), steps=steps)
    evidence = make_evidence(
        speculative=make_generation([after, request]), thinking=ThinkingTokens(start_id=4, end_id=5)
    )
    seen = summary_of(page(make_record(evidence=evidence), evidence))
    assert re.search(r"By output segment .* thinking 1 ", seen)


def test_fact_groups_when_listed_then_show_every_fact_once() -> None:
    shown = [name for names in FACT_GROUPS.values() for name in names]
    assert len(shown) == len(set(shown))
    assert set(EngineFacts.__struct_fields__) == {*shown, "live", "lossy_settings"}
