from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.object_server import ObjectServer, object_server


@pytest.fixture(scope="session")
def objects() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server
