"""Memory as histories like it: the SDKs and their models, once loaded, are not searched for garbage again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.simulation.claims import reference
from tests.simulation.postgres import Database
from tests.simulation.world import ALONE


@pytest.fixture(scope="package", autouse=True)
def _settled() -> Iterator[None]:
    reference(ALONE)
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="package")
def database(postgres_server: str) -> Iterator[Database]:
    place = Database(postgres_server)
    yield place
    place.close()
