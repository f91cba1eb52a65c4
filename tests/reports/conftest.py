"""A browser for the tests that look at the page as a reader does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import Chromium, find_chromium


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A browser, started once; without one on the PATH the test is skipped."""
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium here; install one to test the page in a browser")
    browser = Chromium(program, tmp_path_factory.mktemp("chromium"))
    try:
        yield browser
    finally:
        browser.close()
