"""The stores that every test of the contract runs on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from layton_batch.store.engine import open_engine, sqlite_url
from layton_batch.store.run_store import RunStore
from layton_batch.store.schema import metadata, schema_version
from tests.support.pages import without_pages as without_pages
from tests.support.postgres import new_database
from tests.support.store_rows import opened


@pytest.fixture(scope="session")
def emptied_url(postgres_server: str) -> str:
    """A database that every test leaves empty: to make one takes longer than most tests."""
    return new_database(postgres_server)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of either kind; a new one, where locks of killed processes or the schema matter."""
    if request.param == "sqlite":
        yield sqlite_url(tmp_path / "state.sqlite3")
    elif "lock" in request.fixturenames or not {"store", "engine"}.intersection(request.fixturenames):
        yield request.getfixturevalue("postgres_url")
    else:
        emptied: str = request.getfixturevalue("emptied_url")
        yield emptied
        database = create_engine(emptied)
        with database.begin() as connection:
            for table in reversed(metadata.sorted_tables):
                if table is not schema_version:
                    connection.execute(table.delete())
        database.dispose()


@pytest.fixture
def store(url: str) -> Iterator[RunStore]:
    """A run with one planned batch."""
    with opened(url) as run:
        yield run


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    database = open_engine(url)
    yield database
    database.dispose()
