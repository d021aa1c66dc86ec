"""What every test may rely on: a hypothesis profile, charts that are drawn once, a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.simulation.shortcuts import drawn_once
from tests.site.devtools import Browser, chromium

settings.register_profile("untimed", deadline=None, derandomize=True, database=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def pictures_drawn_once() -> Iterator[None]:
    """Boards of the same runs have the same charts."""
    with drawn_once():
        yield


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A Chromium without a window; tests that need it are skipped where there is none."""
    program = chromium()
    if program is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    started = Browser(program, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()
