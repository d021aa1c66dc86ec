"""One process for all histories of a worker, which forks their lives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.conductor import Forks


@pytest.fixture(scope="package")
def forks() -> Iterator[Forks]:
    opened = Forks()
    yield opened
    opened.close()
