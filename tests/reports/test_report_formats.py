"""The table of formats is true, costs nothing to read, and every run gets its report whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from evidence_factory import make_evidence
from record_factory import make_experiments, make_record

from dflash_doctor.evidence import Evidence
from dflash_doctor.records import Artifacts, RunRecord
from dflash_doctor.reports import html_page
from dflash_doctor.reports.build import write_reports
from dflash_doctor.reports.catalog import FORMATS, entry_of, format_names, load_renderer
from dflash_doctor.runs import encode_record


@pytest.mark.parametrize("name", format_names())
def test_format_when_loaded_then_writes_bytes_with_and_without_evidence(name: str) -> None:
    render = load_renderer(name)
    record, evidence = make_record(), make_evidence()
    for given in (evidence, None, Evidence()):
        document = render(record, given)
        assert document.decode()
        assert document == render(record, given)


@pytest.mark.parametrize("name", format_names())
def test_format_when_it_shows_requests_then_the_table_says_so(name: str) -> None:
    render, record = load_renderer(name), make_record()
    assert (render(record, make_evidence()) != render(record, None)) == entry_of(name).shows_requests


def test_formats_when_listed_then_names_and_modules_are_distinct() -> None:
    for field in ("name", "module"):
        values = [getattr(entry, field) for entry in FORMATS]
        assert len(set(values)) == len(values)


def test_catalog_when_imported_then_loads_no_format() -> None:
    code = (
        "import sys, dflash_doctor.reports.catalog as catalog\n"
        "print(sorted({'jinja2', 'rich', 'numpy', *(e.module for e in catalog.FORMATS)} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_json_when_written_then_is_the_record() -> None:
    record = make_record()
    document = load_renderer("json")(record, None)
    assert document == encode_record(record)
    assert msgspec.json.decode(document, type=RunRecord) == record
    assert json.loads(document)["verdict"] == "passed"


def test_json_when_experiments_were_made_then_holds_them() -> None:
    record = make_record(experiments=make_experiments())
    found = json.loads(load_renderer("json")(record, None))["metrics"]["experiments"]
    assert [trial["verdict"] for trial in found["trials"]][:2] == ["explains", "worse"]
    assert found["not_tried"] == ["rotary-layout: the config has no rotary settings"]


def test_sarif_when_a_setting_explains_the_loss_then_gives_the_edit_and_what_was_not_tried() -> None:
    document = json.loads(load_renderer("sarif")(make_record(experiments=make_experiments()), None))
    run = document["runs"][0]
    result = next(item for item in run["results"] if item["ruleId"] == "DF405")
    assert result["properties"]["edit"] == "set target_layer_ids = [1, 3]"
    notes = [note["message"]["text"] for note in run["invocations"][0]["toolExecutionNotifications"]]
    assert "experiment not made: rotary-layout: the config has no rotary settings" in notes
    assert "experiment not made: one slot less: out of memory" in notes


def test_fix_plan_when_a_setting_explains_the_loss_then_has_its_edit() -> None:
    text = load_renderer("fix-plan")(make_record(experiments=make_experiments()), None).decode()
    assert "1. set target_layer_ids = [1, 3]\n   # DF405 error" in text


def test_write_reports_when_done_then_names_the_report(tmp_path: Path) -> None:
    record = make_record(changes={"artifacts": Artifacts(traces="traces.jsonl")})
    artifacts = write_reports(record, make_evidence(), tmp_path)
    assert artifacts == Artifacts(report="report.html", traces="traces.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_bytes().startswith(b"<!DOCTYPE html>")


def test_write_reports_when_rendering_fails_then_leaves_the_old_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "report.html").write_text("old")

    def fail(record: RunRecord, evidence: Evidence | None) -> bytes:
        raise RuntimeError("broken")

    monkeypatch.setattr(html_page, "render", fail)
    with pytest.raises(RuntimeError, match="broken"):
        write_reports(make_record(), None, tmp_path)
    assert (tmp_path / "report.html").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_write_reports_when_the_folder_is_gone_then_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        write_reports(make_record(), None, tmp_path / "none")
