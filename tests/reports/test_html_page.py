"""The page is whole, safe, and works in a real browser."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from evidence_factory import make_evidence, make_generation, make_request
from record_factory import make_record

from dflash_doctor.evidence import Divergence, Evidence
from dflash_doctor.records import RunRecord
from dflash_doctor.reports.html_page import render

HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>{{7*7}}\u202e\x00'\"&"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def page(record: RunRecord, evidence: Evidence | None = None) -> str:
    return render(record, evidence).decode()


def hostile_evidence() -> Evidence:
    requests = [make_request(f"{HOSTILE}{i}", HOSTILE, accepted=(3, 0, 7)) for i in range(4)]
    evidence = make_evidence(
        speculative=make_generation(requests), token_texts=dict.fromkeys(range(1000), HOSTILE)
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


def test_render_when_healthy_then_summary_needs_no_script() -> None:
    text = re.sub(r"<script.*?</script>", "", page(make_record(), make_evidence()), flags=re.S)
    for part in (
        "PASSED",
        "Healthy: 8 of 8",
        "<svg",
        "Acceptance by category",
        "DF301",
        "Live engine",
        "no data",
    ):
        assert part in text


def test_render_when_failed_then_the_one_thing_to_do_comes_before_the_numbers() -> None:
    text = page(make_record(accept=0.0))
    assert text.index("The one thing to do") < text.index("Findings") < text.index("Checks")
    assert "draft-weights-not-loaded" in text


def test_render_when_written_then_asks_nothing_of_the_network() -> None:
    text = page(make_record(), make_evidence())
    assert not re.search(r"""(?:src|href|url\()\s*=?\s*["']?https?:""", text)
    assert "default-src 'none'" in text
    assets = text.replace(re.search(r'id="samples-data">([^<]*)<', text).group(1), "")  # type: ignore[union-attr]
    assert len(assets.encode()) < 300_000


def test_render_when_texts_are_hostile_then_everything_is_escaped() -> None:
    evidence = hostile_evidence()
    record = make_record(evidence=evidence, changes={"summary": HOSTILE, "incomplete": HOSTILE})
    text = page(record, evidence)
    assert "<img src=x" not in text
    assert "<script>alert" not in text
    assert "49" not in re.findall(r"\{\{7\*7\}\}|49", html.unescape(text))[:1]
    assert "\u202e" not in text
    assert "\x00" not in text
    assert "&lt;U+202E&gt;" in text


def test_render_when_rendered_twice_then_gives_the_same_bytes() -> None:
    record, evidence = make_record(), make_evidence()
    assert render(record, evidence) == render(record, evidence)


def test_render_when_nothing_was_learnt_then_still_renders() -> None:
    record = make_record(evidence=Evidence(), changes={"incomplete": "the engine died", "workload": None})
    text = page(record, Evidence())
    assert "the engine died" in text
    assert 'id="samples-data"' not in text


# In a browser


@pytest.fixture
def browser(tmp_path: Path) -> list[str]:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium here; install one to test the page in a browser")
    profile = tmp_path / "profile"
    return [
        found, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={profile}", "--virtual-time-budget=5000",
    ]  # fmt: skip


def dumped(browser: list[str], path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [*browser, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.browser
def test_page_when_opened_then_shows_samples_step_by_step(browser: list[str], tmp_path: Path) -> None:
    evidence = make_evidence(num_requests=30)
    dom = dumped(browser, tmp_path / "report.html", page(make_record(evidence=evidence), evidence))
    assert "30 of 30" in dom
    assert dom.count('role="option"') >= 10
    assert 'class="token accepted' in dom
    assert 'class="token rejected' in dom
    assert 'class="token recovered' in dom
    assert "Rejected draft token at position" in dom
    assert "rank 2" in dom


@pytest.mark.browser
def test_page_when_there_are_ten_thousand_samples_then_draws_only_what_is_seen(
    browser: list[str], tmp_path: Path
) -> None:
    requests = [make_request(f"r{i:05d}", accepted=(3, 0, 7)) for i in range(10_000)]
    evidence = make_evidence(speculative=make_generation(requests))
    dom = dumped(browser, tmp_path / "report.html", page(make_record(evidence=evidence), evidence))
    assert "10,000 of 10,000" in dom
    assert dom.count('role="option"') < 60


@pytest.mark.browser
def test_page_when_data_is_hostile_then_no_script_of_it_runs(browser: list[str], tmp_path: Path) -> None:
    evidence = hostile_evidence()
    # An attack that worked would leave its mark in the title.
    attack = HOSTILE.replace("alert(1)", "document.title='hit'").replace("alert(2)", "document.title='hit'")
    record = make_record(evidence=evidence, changes={"summary": attack})
    dom = dumped(browser, tmp_path / "report.html", page(record, evidence))
    assert re.search(r"<title>[A-Z]+ 20260101-000000-abcd dflash-doctor</title>", dom)
    assert "4 of 4" in dom
    assert "<img" not in dom
    assert "Parts from target-only at output token 2" in dom


@pytest.mark.browser
def test_page_when_a_script_is_injected_then_the_policy_stops_it(browser: list[str], tmp_path: Path) -> None:
    text = page(make_record(), make_evidence())
    injected = text.replace("</main>", "<script>document.title='hit'</script></main>")
    dom = dumped(browser, tmp_path / "report.html", injected)
    assert "<title>hit</title>" not in dom
