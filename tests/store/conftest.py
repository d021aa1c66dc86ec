"""The stores that every test of the contract runs on."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.store.engine import sqlite_url
from tests.support.pages import without_pages as without_pages


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database of either kind."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "state.sqlite3")
    found: str = request.getfixturevalue("postgres_url")
    return found
