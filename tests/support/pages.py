"""Runs whose sites have no pages: writing them takes a seventh of a run, and few claims about runs need them."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest

from layton_batch.site import build


@pytest.fixture(autouse=True, scope="module")
def without_pages(request: pytest.FixtureRequest) -> Iterator[None]:
    """Write only the marker and the digests of a site, except in a module that says ``READS_PAGES = True``."""
    if getattr(request.module, "READS_PAGES", False):
        yield
        return
    with mock.patch.object(build, "write_pages", return_value=0):
        yield
