"""Two tiers: what every change plays, and what is nightly. Of many cases of one claim a change plays some."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.simulation.shortcuts import drawn_once
from tests.site.devtools import Browser, chromium

settings.register_profile("untimed", deadline=None, derandomize=True, database=None)
settings.load_profile("untimed")

HOSTILE, STRIDE = Path(__file__).parent / "hostile", 7
"""Every claim there is made for many dialects and forms of damage."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as ``nightly`` the cases that a change does not play. Claims take turns with the case they begin at."""
    claims: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        claims[item.nodeid.partition("[")[0]].append(item)
    for turn, cases in enumerate(claims.values()):
        stride = _stride(cases[0]) if len(cases) > 1 else 1
        for number, case in enumerate(cases):
            if number % stride != turn % min(stride, len(cases)):
                case.add_marker(pytest.mark.nightly)


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


def _stride(item: pytest.Item) -> int:
    mark = item.get_closest_marker("one_in")
    if mark is not None:
        return int(mark.args[0])
    return STRIDE if item.path.is_relative_to(HOSTILE) else 1
