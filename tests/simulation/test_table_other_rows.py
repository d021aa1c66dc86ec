"""The table's other rows, in a file of their own so that two workers share them."""

from __future__ import annotations

import pytest

from tests.simulation.scenarios import Scenario, is_on_the_page, measure
from tests.simulation.table import TABLE


@pytest.mark.parametrize("scenario", TABLE[1::2], ids=lambda scenario: scenario.name)
def test_at_every_provider_each_row_is_billed_once_and_none_is_lost_as_the_page_says(scenario: Scenario) -> None:
    measured = measure([scenario])
    assert measured[scenario.name] == {name: scenario.expected(name) for name in measured[scenario.name]}
    assert is_on_the_page(measured)
