"""The stores that every test of the contract runs on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from layton_batch.store import sqlite_url
from tests.store.postgres import binaries, server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL's server programs are not installed (Debian: postgresql)")
    with server(programs) as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """A new, empty database."""
    name = f"test_{next(_numbers)}"
    engine = create_engine(f"{postgres_server}/postgres", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"{postgres_server}/{name}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database of either kind."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "state.sqlite3")
    found: str = request.getfixturevalue("postgres_url")
    return found
