"""Correct pairs of every dialect: no static check says more than a note."""

from __future__ import annotations

from pathlib import Path

import pytest
from dialect_pairs import HEALTHY, HealthyPair

from dflash_doctor.inspection import inspect
from dflash_doctor.settings import Settings

METHODS = {
    "dspark": "dspark",
    "speculators-dspark": "dspark",
    "eagle3": "eagle3",
    "speculators-eagle3": "eagle3",
    "draft-model": "draft_model",
}
"""How an engine calls the way in which a dialect drafts, where that is not dflash."""


@pytest.mark.parametrize("pair", HEALTHY, ids=lambda pair: pair.name)
def test_checks_when_a_pair_is_healthy_then_say_no_more_than_a_note(
    pair: HealthyPair, tmp_path: Path
) -> None:
    target, draft = pair.write(tmp_path)
    settings = Settings(
        target=target, draft=draft, served_by=pair.served_by, method=METHODS.get(pair.dialect, "dflash")
    )
    result = inspect(settings, environ=pair.environ)
    checks = result.record.checks
    assert [check.reason for check in checks if check.verdict == "errored"] == []
    loud = [
        f"{item.code} {item.severity}: {item.message}: {item.observed}"
        for check in checks
        for item in check.findings
        # What is installed on this machine is no property of the pair.
        if item.severity != "info" and not item.code.startswith("DF0")
    ]
    assert loud == []
