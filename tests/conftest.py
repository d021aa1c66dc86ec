"""What every test may rely on: profiles of hypothesis, a database server, a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.devtools import Browser, chromium
from tests.support.paths import SHARED_DATA
from tests.support.postgres import new_database, required, server

settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True, database=None)
settings.register_profile("nightly", settings.get_profile("ci"), max_examples=1000)
settings.load_profile("ci")  # scripts/nightly names the other one


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of real data where the optional folder is absent."""
    if SHARED_DATA.is_dir():
        return
    absent = pytest.mark.skip(reason=f"the optional folder of real data, {SHARED_DATA}, is absent")
    for item in items:
        if item.get_closest_marker("shared_data") is not None:
            item.add_marker(absent)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a running PostgreSQL, without a database's name; tests are skipped where none is installed."""
    with server(required()) as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """A new, empty database."""
    return new_database(postgres_server)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A Chromium without a window; tests that need it are skipped where there is none."""
    program = chromium()
    if program is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    started = Browser(program, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()
