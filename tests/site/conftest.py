"""What tests of pages share: most of their sites have the same charts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from unittest import mock

import pytest

from layton_batch import drawing


@pytest.fixture(scope="package", autouse=True)
def equal_charts_drawn_once() -> Iterator[None]:
    """Drawing its charts takes most of the time of a site."""
    with mock.patch.multiple(drawing, svg=cache(drawing.svg), png=cache(drawing.png)):
        yield
