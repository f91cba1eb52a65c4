"""A run folder gives back what was written, and damage is named."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import msgspec
import pytest
from evidence_factory import make_evidence, make_generation, make_request, without_steps
from record_factory import make_record

from dflash_doctor.errors import RecordError, UsageError
from dflash_doctor.evidence import Evidence
from dflash_doctor.records import SCHEMA_VERSION, json_schema
from dflash_doctor.runs import (
    encode_record,
    prepare_folder,
    read_record,
    read_traces,
    replacing,
    write_record,
    write_traces,
)


def test_record_when_written_then_reads_back_equal_from_folder_or_file(tmp_path: Path) -> None:
    record = make_record()
    path = write_record(record, tmp_path)
    assert read_record(tmp_path) == (record, tmp_path)
    assert read_record(path) == (record, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run.json"]


def test_record_when_encoded_then_fits_the_published_schema() -> None:
    schema = json_schema()
    for record in (make_record(), make_record(evidence=Evidence()), make_record(accept=0.0)):
        jsonschema.validate(json.loads(encode_record(record)), schema)
    broken = json.loads(encode_record(make_record()))
    broken["verdict"] = "fine"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


def test_record_when_encoded_then_has_the_promised_top_keys() -> None:
    keys = json.loads(encode_record(make_record())).keys()
    assert {
        "schema_version", "tool", "run_id", "started_at", "duration_s", "verdict", "pair", "engine",
        "environment", "settings", "workload", "metrics", "checks", "diagnosis", "artifacts",
    } <= keys  # fmt: skip


def test_read_record_when_it_is_newer_then_asks_for_an_upgrade(tmp_path: Path) -> None:
    raw = json.loads(encode_record(make_record()))
    raw["schema_version"] = SCHEMA_VERSION + 1
    raw["surprise"] = raw.pop("metrics")
    (tmp_path / "run.json").write_text(json.dumps(raw))
    with pytest.raises(RecordError, match="newer version"):
        read_record(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema_version": 1}', "\xff\xfe", '{"schema_version": "x"}']
)
def test_read_record_when_it_is_damaged_then_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(RecordError, match="not a run record"):
        read_record(tmp_path)
    with pytest.raises(RecordError, match="no run record"):
        read_record(tmp_path / "elsewhere")


def test_traces_when_written_then_evidence_reads_back_equal(tmp_path: Path) -> None:
    repeats = (make_generation([without_steps(make_request())], arm="target-only"),) * 2
    evidence = make_evidence(target_only_repeats=repeats)
    path = write_traces(evidence, tmp_path, "run")
    assert read_traces(path) == evidence
    assert read_traces(write_traces(Evidence(), tmp_path, "run")) == Evidence()


def test_read_traces_when_a_line_is_damaged_then_names_it(tmp_path: Path) -> None:
    path = write_traces(make_evidence(), tmp_path, "run")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + lines[4][:50])
    with pytest.raises(RecordError) as raised:
        read_traces(path)
    assert f"{path}:5" in raised.value.seen
    path.write_bytes(lines[0])
    with pytest.raises(RecordError, match="no evidence line"):
        read_traces(path)
    path.write_bytes(b'{"type":"header","version":99,"run_id":"x"}\n')
    with pytest.raises(RecordError, match="newer version"):
        read_traces(path)
    with pytest.raises(RecordError, match="cannot be read"):
        read_traces(tmp_path / "none")


def test_replacing_when_the_block_fails_then_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail_half_way() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_prepare_folder_when_it_is_read_only_then_is_a_usage_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot be written"):
        prepare_folder(tmp_path / "x")


def test_prepare_folder_when_a_file_is_in_the_way_then_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        prepare_folder(tmp_path / "x")
    assert prepare_folder(tmp_path / "a" / "b").is_dir()


def test_record_when_anything_in_it_changes_then_the_bytes_change() -> None:
    record = make_record()
    assert encode_record(record) == encode_record(record)
    assert encode_record(msgspec.structs.replace(record, summary="x")) != encode_record(record)
