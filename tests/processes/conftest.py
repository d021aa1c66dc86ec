"""One sandbox process for a file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes.commands import Bench, bench


@pytest.fixture(scope="module")
def place() -> Iterator[Bench]:
    with bench() as found:
        yield found
