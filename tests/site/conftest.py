"""Sites as they are published, with their charts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.shortcuts import drawn


@pytest.fixture(scope="package", autouse=True)
def with_charts() -> Iterator[None]:
    with drawn():
        yield
