"""One sandbox process for all tests of a worker; each test looks only at what is new since its beginning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import Bench, Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as found:
        yield found


@pytest.fixture
def place(sandbox: Sandbox, tmp_path: Path) -> Iterator[Bench]:
    yield Bench(tmp_path, sandbox)
    sandbox.way.leave_alone()
